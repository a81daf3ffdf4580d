"""The command line `recollect`. Needs the extra `recollect-client[cli]` (click and rich).

`main` is the entry point; `group` has the commands, most of them a module each. `import` reads
files by `recollect.imports`, which the page uses too. It uses the client as any program does.
Nothing else imports it, but for the groups of commands (`commands`), which `recollect-server` lists
in the same way.
"""
