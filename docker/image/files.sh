#!/bin/sh
# Lays out the image below $1, in which klamm lies already: bash and nc with the libraries that they and klamm need,
# busybox for everything else that compose files and health checks call, links for the names of Kafka's scripts.
set -eu
root=$1
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/tmp" "$root/etc"
for dir in bin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
ln -s bin "$root/usr/sbin"
ln -s usr/bin "$root/sbin"
chmod 1777 "$root/tmp"

copy() { mkdir -p "$root$(dirname "$2")" && cp -L "$1" "$root$2"; }
for program in "$(command -v bash):/usr/bin/bash" "$(command -v nc):/usr/bin/nc"; do
  copy "${program%%:*}" "${program##*:}"
done
for program in usr/bin/klamm usr/bin/bash usr/bin/nc; do
  ldd "$root/$program" | grep -o '/[^ ]*' | while read -r library; do copy "$library" "/usr${library#/usr}"; done
done

copy "$(command -v busybox)" /usr/bin/busybox
for applet in $(busybox --list); do
  [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
done

# Names of the binary.
for dir in usr/bin opt/kafka/bin opt/bitnami/kafka/bin; do
  mkdir -p "$root/$dir"
  for tool in broker-api-versions configs console-consumer console-producer consumer-groups delete-records dump-log \
      get-offsets leader-election log-dirs reassign-partitions run-class server-start server-stop storage topics \
      transactions; do
    ln -s /usr/bin/klamm "$root/$dir/kafka-$tool"
    ln -s /usr/bin/klamm "$root/$dir/kafka-$tool.sh"
  done
done
ln -s klamm "$root/usr/bin/cub"

# Entry points.
for entry in etc/kafka/docker/run etc/confluent/docker/run opt/bitnami/scripts/kafka/run.sh usr/bin/start-kafka.sh; do
  mkdir -p "$root/$(dirname "$entry")"
  cp /build/run "$root/$entry"
done
cp /build/entrypoint.sh "$root/opt/bitnami/scripts/kafka/entrypoint.sh"
# Edited by the commands of some compose files, for what is not needed here.
for script in configure ensure; do printf '#!/bin/sh\n' > "$root/etc/confluent/docker/$script"; done
chmod -R a+rx "$root/etc/kafka/docker" "$root/etc/confluent/docker" "$root/opt/bitnami/scripts"
chmod a+rx "$root/usr/bin/start-kafka.sh"

cat > "$root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/bash
appuser:x:1000:0:klamm:/tmp:/bin/bash
kafka:x:1001:0:klamm, as in Bitnami's image:/tmp:/bin/bash
END
cat > "$root/etc/group" <<'END'
root:x:0:
appuser:x:1000:appuser
END
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"

# What the user of the image, and any other of group 0, may write: a new volume gets the directory's owner.
for dir in var/lib/kafka/data bitnami/kafka/data bitnami/kafka/config kafka mnt/shared/config etc/kafka/secrets \
    opt/kafka/logs opt/kafka/config opt/bitnami/kafka/config etc/confluent/docker; do
  mkdir -p "$root/$dir"
done
for dir in var/lib/kafka bitnami kafka mnt/shared etc/kafka opt/kafka opt/bitnami etc/confluent; do
  chown -hR 1000:0 "$root/$dir"
  chmod -R g=u "$root/$dir"
done
