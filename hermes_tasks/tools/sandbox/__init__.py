"""What keeps a command of the terminal to itself. Each file is one layer; ``layers`` tells which of them hold here.

``landlock``     which files it may open
``seccomp``      which system calls it may make; among those it may not are all that lead to a socket
``namespaces``   a view of files and processes of its own

All but ``layers`` run in the process of ``runner`` and import the standard library only, and of that little.
"""
