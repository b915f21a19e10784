package test

func beFarSide() {}
