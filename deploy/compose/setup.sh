#!/bin/sh
# Makes certificates and tokens for compose.yaml, unless they are there.
#
#   setup.sh SECRETS [STORE]
#
# SECRETS gets ca.pem (for clients), a pair for the daemon, the NATS server and the
# daemon as its client, the file of tokens, and a file with each token. STORE is the
# folder of the NATS server. Run as root, it gives both to the user of the images.
set -eu
umask 077
secrets=$1
owner=65532:65532

# pair NAME USE ALTERNATIVE-NAMES
pair() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
  printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' "$2" "$3" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 825 -sha256 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

if [ ! -e "$secrets/ready" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  openssl req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 3650 \
    -subj "/CN=Bullpen compose" -addext "keyUsage=critical,keyCertSign,cRLSign" 2>/dev/null
  pair bullpen serverAuth "DNS:localhost,DNS:bullpen,IP:127.0.0.1,IP:::1"
  pair nats serverAuth "DNS:nats,DNS:localhost"
  pair client clientAuth "DNS:bullpen"
  # Nobody needs to sign any more.
  rm -f ca.key ca.srl
  for role in read submit admin; do
    openssl rand -hex 32 > "$role.token"
    # The daemon keeps a digest only.
    printf '%s compose sha256:%s\n' "$role" "$(tr -d '\n' < "$role.token" | openssl dgst -sha256 -r | cut -d ' ' -f 1)" >> tokens
  done
  chmod 644 ca.pem
  cp -p ./* "$secrets/"
  : > "$secrets/ready"
  echo "made certificates and tokens"
fi

if [ "$(id -u)" = 0 ]; then
  chown -R "$owner" "$secrets"
  chmod 711 "$secrets"
  if [ $# -gt 1 ]; then
    chown "$owner" "$2"
    chmod 700 "$2"
  fi
fi
