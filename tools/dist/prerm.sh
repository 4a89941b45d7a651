#!/bin/sh
# Stops the daemon before its program goes.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now bullpen.service
fi
