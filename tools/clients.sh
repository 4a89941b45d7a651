#!/usr/bin/env bash
# Installs what tests run as workers, and as callers of the Lambda front: programs that know
# nothing of Bullpen. They go into folders of .cache/clients, which are made anew when their
# versions or the interpreter change. What cannot be installed is reported, and its tests are
# skipped.
#
#   tools/clients.sh      Python and web frameworks, Express and the AWS SDK for Node.js
#   tools/clients.sh all  also the runtime clients of AWS for Node.js, Java and Rust, which
#                         are compiled: some minutes
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.cache/clients

# provide NAME VERSIONS COMMAND... has the command fill a folder, unless it has for the same
# versions.
provide() {
	local to=$folder/$1 versions=$2
	shift 2
	if [ "$(cat "$to/made-for" 2>/dev/null)" = "$versions" ]; then
		return
	fi
	rm -rf "$to"
	mkdir -p "$to"
	if "$@" "$to"; then
		printf '%s\n' "$versions" >"$to/made-for"
	else
		echo "$to: $* has failed; its tests are skipped" >&2
		rm -rf "$to"
	fi
}

# lacks COMMAND... reports whether one of the commands is missing, and which.
lacks() {
	for command; do
		if ! command -v "$command" >/dev/null; then
			echo "$command is missing: clients that need it are not installed, and their tests are skipped" >&2
			return 0
		fi
	done
	return 1
}

# It compiles the client of Lambda: apt-get install -y g++ python3-dev.
install_python() {
	"${PYTHON:-python3}" -m venv "$1" && "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/clients.txt
}
provide python "$("${PYTHON:-python3}" -c 'import sys; print(sys.version, sys.prefix)'; cksum <tools/clients.txt)" install_python

# install_node NAME@VERSION... FOLDER installs packages of Node.js.
install_node() { npm install --silent --no-audit --no-fund --prefix "${@: -1}" "${@:1:$#-1}"; }

node_version() { echo "$(node --version) $*"; }
node=(express@5.1.0 serverless-http@4.0.0 @aws-sdk/client-lambda@3.1164.0)
if ! lacks node npm; then
	provide node "$(node_version "${node[@]}")" install_node "${node[@]}"
fi

if [ "${1-}" != all ]; then
	exit
fi

# They compile curl and a client in C++.
if ! lacks node npm make g++ cmake; then
	provide ric4 "$(node_version aws-lambda-ric@4.0.2)" install_node aws-lambda-ric@4.0.2
	if ! lacks autoconf automake libtoolize; then
		provide ric3 "$(node_version aws-lambda-ric@3.3.0)" install_node aws-lambda-ric@3.3.0
	fi
fi

java_version=2.9.0
install_java() {
	cat >"$1/pom.xml" <<-END
		<project xmlns="http://maven.apache.org/POM/4.0.0">
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>bullpen</groupId>
		  <artifactId>function</artifactId>
		  <version>1</version>
		  <dependencies>
		    <dependency>
		      <groupId>com.amazonaws</groupId>
		      <artifactId>aws-lambda-java-runtime-interface-client</artifactId>
		      <version>$java_version</version>
		    </dependency>
		  </dependencies>
		</project>
	END
	mvn --quiet --batch-mode --file "$1/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=libs
}
if ! lacks java javac mvn; then
	provide java "$java_version" install_java
fi

rust_version=1.5.0
install_rust() {
	cat >"$1/Cargo.toml" <<-END
		[package]
		name = "function"
		version = "1.0.0"
		edition = "2021"

		[[bin]]
		name = "function"
		path = "$PWD/process/testdata/clients/function.rs"

		[dependencies]
		lambda_runtime = { version = "=$rust_version", features = ["concurrency-tokio"] }
		serde = { version = "1", features = ["derive"] }
		serde_json = "1"
		tokio = { version = "1", features = ["full"] }
		tokio-stream = "0.1"

		[workspace]
	END
	cargo build --quiet --release --manifest-path "$1/Cargo.toml"
}
if ! lacks cargo; then
	provide rust "$(cargo --version) $rust_version" install_rust
fi
