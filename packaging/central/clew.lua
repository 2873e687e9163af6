-- Clew's environment (packaging/central/README.md): /apps/clew/VERSION, as this file's name says.
local home = pathJoin("/apps/clew", myModuleVersion())

help([[The agent of Clew, an assistant for deep-learning laboratories: clew-agent run SPEC, clew-agent --help.]])
whatis("Name: clew")
whatis("Description: trains on a compute node and sends its curves to a laptop")

prepend_path("PATH", pathJoin(home, "bin"))
setenv("VIRTUAL_ENV", home)
