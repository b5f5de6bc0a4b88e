"""`wavefabric fabric`: fabrics shown and imported, routes over them, and links measured."""
