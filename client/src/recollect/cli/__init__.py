"""The command line `recollect`: a person's way to the service. Needs the extra `recollect-client[cli]` (click and rich).

It uses the client as any program does. `main` is where it begins; `group` has the commands, one file each.
"""
