"""The parts of the library page: projects, the list, and the room of one scenario."""
