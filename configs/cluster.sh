#!/usr/bin/env bash
# Three brokers and a ZooKeeper on this machine, for a person to try: `configs/cluster.sh [DIR]`.
#
#   ZooKeeper   localhost:2181   from $ZOOKEEPER_HOME, or Debian's package `zookeeper`; wants a Java
#   broker 1-3  localhost:9092, 9093, 9094
#
# Data and logs lie in DIR (default ./klamm-cluster) and stay there: a second start goes on where the first ended. Ctrl-C
# ends everything in order. One broker alone: `kill -9 $(cat DIR/broker2.pid)`; `configs/cluster.sh DIR 2` brings it back.
set -euo pipefail

fail() { echo "cluster.sh: $*" >&2; exit 1; }

root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-klamm-cluster}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

klamm=${KLAMM:-$root/target/release/klamm}
[ -x "$klamm" ] || klamm=$(command -v klamm) || fail "no klamm: cargo build --release, or KLAMM=path"

broker() { # ID
  "$klamm" --override broker.id="$1" \
    --override listeners=PLAINTEXT://localhost:$((9091 + $1)) \
    --override log.dirs="$dir/broker$1" \
    --override zookeeper.connect=localhost:2181 \
    --override zookeeper.session.timeout.ms=6000 \
    --override default.replication.factor=3 \
    --override min.insync.replicas=2 >> "$dir/broker$1.log" 2>&1 &
  echo $! > "$dir/broker$1.pid"
  echo "broker $1 on localhost:$((9091 + $1)), log $dir/broker$1.log"
}

if [ $# -ge 2 ]; then
  [[ $2 =~ ^[1-3]$ ]] || fail "broker 1, 2 or 3"
  broker "$2"
  exit
fi

command -v java > /dev/null || fail "no java for ZooKeeper: apt-get install default-jre-headless"
if [ -n "${ZOOKEEPER_HOME:-}" ]; then
  classpath="$ZOOKEEPER_HOME/lib/*"
elif [ -e /usr/share/java/zookeeper.jar ]; then
  classpath="/usr/share/java/*"
else
  fail "no ZooKeeper: apt-get install zookeeper, or ZOOKEEPER_HOME=an unpacked release"
fi

# In order: brokers first, then what they write to.
stop() {
  trap - INT TERM EXIT
  local n pids=()
  for n in 1 2 3; do [ -e "$dir/broker$n.pid" ] && pids+=("$(cat "$dir/broker$n.pid")"); done
  kill "${pids[@]}" 2> /dev/null || true
  for n in "${pids[@]}"; do while kill -0 "$n" 2> /dev/null; do sleep 0.1; done; done
  rm -f "$dir"/broker?.pid
  [ -z "${zookeeper:-}" ] || kill "$zookeeper" 2> /dev/null || true
  wait
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

mkdir -p "$dir/zookeeper"
printf '%s\n' "dataDir=$dir/zookeeper" clientPort=2181 tickTime=1000 maxClientCnxns=0 admin.enableServer=false \
  4lw.commands.whitelist=ruok > "$dir/zoo.cfg"
java -cp "$classpath" org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" > "$dir/zookeeper.log" 2>&1 &
zookeeper=$!
echo "ZooKeeper on localhost:2181, log $dir/zookeeper.log"
for n in 1 2 3; do broker "$n"; done
echo "Ctrl-C ends them."
wait "$zookeeper" || fail "ZooKeeper ended: $(tail -1 "$dir/zookeeper.log")"
