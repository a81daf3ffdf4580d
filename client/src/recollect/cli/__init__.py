"""The command line `recollect`: a person's way to the service. Needs the extra
`recollect-client[cli]` (click and rich).

`main` is where it begins; `group` has the commands, one file each. It uses the client as any
program does; nothing in the package imports it.
"""
