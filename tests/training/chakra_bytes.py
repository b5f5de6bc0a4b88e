"""Chakra traces as bytes by hand: the wire format of protobuf, numbers of fields from et_def.proto."""

import struct


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(number, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def integer(number, value):
    return varint(number << 3) + varint(value)


def attribute(name, value):
    """int64_val 9, string_val 29, bool_val 27, double_val 3."""
    if isinstance(value, bool):
        body = integer(27, value)
    elif isinstance(value, int):
        body = integer(9, value)
    elif isinstance(value, float):
        body = varint(3 << 3 | 1) + struct.pack("<d", value)
    else:
        body = text(29, value)
    return text(10, text(1, name) + body)


def node(number, name, type_, after=(), micros=0, said="", **attributes):
    body = integer(1, number) + text(2, name) + integer(3, type_)
    body += text(5, b"".join(map(varint, after))) if after else b""  # a packed list
    body += integer(7, micros) if micros else b""
    body += text(8, text(1, said)) if said else b""
    return body + b"".join(attribute(key, value) for key, value in attributes.items())


def file_of(*nodes):
    return b"".join(varint(len(body)) + body for body in (text(1, "0.0.4"), *nodes))


COMP, SEND, RECV, COLL = 4, 5, 6, 7
REDUCE = {"comm_type": 0, "comm_size": 1 << 20}


def saved(folder, *files):
    paths = []
    for rank, content in enumerate(files):
        paths.append(folder / f"x.{rank}.et")
        paths[-1].write_bytes(content)
    return paths
