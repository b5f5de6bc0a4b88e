/* Tuner plugin of NCCL: for each operation and size the algorithm, protocol and channels of a measured table.
   ABI: https://github.com/NVIDIA/nccl/tree/master/plugins/tuner, version 4 (NCCL 2.24 to 2.27), 5 (2.28,
   2.29) and 6 (2.30). NCCL takes the newest version that it knows. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
enum { SUCCESS = 0, LOG_WARN = 2, LOG_TUNING = 0x40 };
typedef void (*Logger)(int level, unsigned long part, const char *file, int line, const char *format, ...);

/* In the order of NCCL's numbers. */
static const char *const OPERATIONS[] = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
static const char *const ALGORITHMS[] = {"tree", "ring", "collnet_direct", "collnet_chain",
                                         "nvls", "nvls_tree", "pat"};
static const char *const PROTOCOLS[] = {"ll", "ll128", "simple"};

/* Bytes with both ends; channels 0 leaves them to NCCL. */
typedef struct { size_t least, most; int algorithm, protocol, channels; } Row;
/* Rising rows of an operation, for a communicator's ranks and nodes; its context is an array of tables. */
typedef struct { Row *rows; size_t count; } Table;

/* While NCCL is measured: algorithm (-1: of the table), protocol and channels; how often they were taken. */
EXPORT int wavefabric_nccl_trial[4] = {-1};

static int choose(void *context, int operation, size_t bytes, int pipelined, float **costs, int algorithms,
                  int protocols, int registered, int *channels) {
  int *tried = wavefabric_nccl_trial;
  Row trial = {0, 0, tried[0], tried[1], tried[2]}, *row = trial.algorithm < 0 ? NULL : &trial;
  if (!row && context && operation >= 0 && operation < COUNT(OPERATIONS) && !registered) {
    const Table *table = (Table *)context + operation;
    size_t low = 0, high = table->count;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (table->rows[middle].most < bytes) low = middle + 1;
      else high = middle;
    }
    if (low < table->count && table->rows[low].least <= bytes) row = &table->rows[low];
  }
  if (!row || row->algorithm >= algorithms || row->protocol >= protocols) return SUCCESS;
  float *cost = (float *)costs + row->algorithm * protocols + row->protocol;
  if (*cost < 0) return SUCCESS; /* NCCL_ALGO_PROTO_IGNORE: impossible here */
  *cost = 0;
  if (row->channels) *channels = row->channels;
  if (row == &trial) tried[3]++;
  return SUCCESS;
}

static int number_of(const char *word, const char *const *names, int count) {
  while (count-- > 0 && strcmp(word, names[count])) continue;
  return count;
}

/* Add a row, if it is for this communicator; what is wrong with it, or NULL. */
static const char *read_row(Table *tables, const char *text, size_t ranks, size_t nodes) {
  long long least, most, channels, of_nodes, of_ranks;
  char word[3][16];
  int end = 0;
  sscanf(text, "%15[a-z] , %18lld , %18lld , %15[a-z_] , %15[a-z0-9] , %9lld , %18lld , %18lld , -1 , 0 %n",
         word[0], &least, &most, word[1], word[2], &channels, &of_nodes, &of_ranks, &end);
  if (!end || text[end]) return "not the ten columns of this table, of which the last are -1 and 0";
  int operation = number_of(word[0], OPERATIONS, COUNT(OPERATIONS));
  int algorithm = number_of(word[1], ALGORITHMS, COUNT(ALGORITHMS));
  int protocol = number_of(word[2], PROTOCOLS, COUNT(PROTOCOLS));
  if (operation < 0 || algorithm < 0 || protocol < 0) return "unknown operation, algorithm or protocol";
  /* Of trees and rings NCCL takes no more channels than the communicator has; with CollNet it would. */
  if (channels != -1 && (channels < 1 || channels > 64 || algorithm > 1))
    return "channels are neither -1, nor 1 to 64 of tree or ring";
  if (of_nodes != (long long)nodes || of_ranks != (long long)ranks) return NULL;
  Table *table = tables + operation;
  if (least < 0 || most < least || (table->count && table->rows[table->count - 1].most >= (size_t)least))
    return "bytes of an operation do not rise";
  Row *rows = realloc(table->rows, (table->count + 1) * sizeof *rows);
  if (!rows) return "no memory";
  table->rows = rows;
  rows[table->count++] = (Row){least, most, algorithm, protocol, channels < 0 ? 0 : (int)channels};
  return NULL;
}

static int finalize(void *context) {
  for (int k = 0; context && k < COUNT(OPERATIONS); k++) free(((Table *)context)[k].rows);
  free(context);
  return SUCCESS;
}

static int start(size_t ranks, size_t nodes, Logger log, void **context) {
  const char *path = getenv("WAVEFABRIC_NCCL_TUNER_TABLE"), *slash, *fault = "it cannot be read, or is empty";
  char beside[4096] = "nccl_tuner.conf", text[256];
  Dl_info own;
  int line = 0;
  if (dladdr(wavefabric_nccl_trial, &own) && (slash = strrchr(own.dli_fname, '/')))
    snprintf(beside, sizeof beside, "%.*s/nccl_tuner.conf", (int)(slash - own.dli_fname), own.dli_fname);
  if (!path || !*path) path = beside;
  /* Opening a pipe would wait for somebody who writes to it. */
  int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat kind;
  FILE *file = handle >= 0 && !fstat(handle, &kind) && S_ISREG(kind.st_mode) ? fdopen(handle, "r") : NULL;
  if (handle >= 0 && !file) close(handle);
  *context = calloc(COUNT(OPERATIONS), sizeof(Table));
  while (file && *context && (!line || !fault) && fgets(text, sizeof text, file)) {
    line++;
    fault = *text == '#' || *text == '\n' ? NULL : read_row(*context, text, ranks, nodes);
  }
  if (file) fclose(file);
  if (!fault) return SUCCESS;
  finalize(*context);
  *context = NULL;
  if (log) log(LOG_WARN, LOG_TUNING, __FILE__, __LINE__, "wavefabric: %s, line %d: %s", path, line, fault);
  return SUCCESS;
}

static int start_v5(void **context, uint64_t id, size_t ranks, size_t nodes, Logger log, void *a, void *b) {
  return start(ranks, nodes, log, context);
}

#define METHODS int (*get)(void *, int, size_t, int, float **, int, int, int, int *); int (*end)(void *)
typedef int Start(void **, uint64_t, size_t, size_t, Logger, void *, void *);
EXPORT const struct { const char *name; int (*init)(size_t, size_t, Logger, void **); METHODS; }
    ncclTunerPlugin_v4 = {"wavefabric", start, choose, finalize};
EXPORT const struct { const char *name; Start *init; METHODS; void *get_chunk_size; /* only of version 6 */ }
    ncclTunerPlugin_v5 = {"wavefabric", start_v5, choose, finalize, NULL},
    ncclTunerPlugin_v6 = {"wavefabric", start_v5, choose, finalize, NULL};
