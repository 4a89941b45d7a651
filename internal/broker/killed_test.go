package broker

const victimDir = "BULLPEN_BROKER_VICTIM"

func victim(string) int { return 0 }
