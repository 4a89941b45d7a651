#!/bin/sh
# Makes the user of the daemon, who alone may read the configuration; after an upgrade
# starts the new daemon in place of one that runs.
set -e

[ "$1" = configure ] || exit 0
getent passwd bullpen >/dev/null ||
	useradd --system --user-group --home-dir /var/lib/bullpen --shell /usr/sbin/nologin --comment Bullpen bullpen
chown root:bullpen /etc/bullpen /etc/bullpen/bullpen.yaml
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	[ -z "$2" ] || systemctl try-restart bullpen.service
fi
