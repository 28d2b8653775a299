module klamm/compat/checks

go 1.23
