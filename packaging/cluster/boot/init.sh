#!/bin/bash
# First process of a host, already in namespaces of its own: mounts what the host is to see, says "ready" on descriptor 3,
# and then only waits for orphans. When it is killed, the kernel ends everything on the host.
#
#   init.sh HOST ROLE RUN_FOLDER PROJECT PYTHON_PREFIX PACKAGES SOFTWARE HOMES
#
# ROLE: storage, machine or laptop; PACKAGES may be "-"; SOFTWARE and HOMES: where the cluster's hosts are to see them.
set -eu
readonly host=$1 role=$2 run=$3 project=$4 python=$5 packages=$6 software=$7 homes=$8

bind() { mount --bind "$1" "$2"; }
memory() { mount -t tmpfs -o "$2" clew-cluster "$1"; }

# What all machines of the cluster see: shared homes and the site's software, both in memory, so they end with the cluster.
storage() {
    local opt=$run/opt # filled before it covers /opt, where Python or this project may lie
    local site=$opt/${software##*/}
    mkdir "$opt"
    memory "$opt" mode=755
    cp -r "$run/site" "$site"
    mkdir -p "$site/python" "$site/packages" "$site/bin"
    bind "$python" "$site/python"
    if [ "$packages" != - ]; then bind "$packages" "$site/packages"; fi
    if [ -d "$run/data" ]; then mkdir "$opt/data"; bind "$(readlink "$run/data")" "$opt/data"; fi
    mount --move "$opt" "${software%/*}"
    memory /home mode=755,size=1m
    if [ "$homes" != /home ]; then memory "${homes%/*}" mode=755,size=1m; mkdir "$homes"; fi
    while IFS=: read -r user uid gid options; do
        mkdir "$homes/$user"
        memory "$homes/$user" "uid=$uid,gid=$gid,$options"
        cp -r "$run/homes/$user/." "$homes/$user"
        chown -R "$uid:$gid" "$homes/$user"
    done <"$run/users"
    if [ -d /usr/local/bin ]; then bind "$software/bin" /usr/local/bin; fi
}

# One machine of the cluster, on top of the storage's mounts.
machine() {
    local own=$run/hosts/$host
    bind "$run/etc" /etc
    bind "$own/ssh" /etc/ssh
    bind "$own/log" /var/log
    bind "$own/spool" /var/spool
    memory /run mode=755
    mkdir -m 755 /run/sshd /run/munge
    chown munge:munge /run/munge
    if [ -L "$run/memory" ]; then # a root of all groups of its own: two clusters number their jobs alike
        mkdir -p "$(readlink "$run/memory")/$host" /run/cgroup/memory
        bind "$(readlink "$run/memory")/$host" /run/cgroup/memory
    fi
    ln -s /usr/sbin/sshd /run/sshd-otp
    ln -s /usr/sbin/sshd /run/sshd-node
    if [ -d /dev/shm ]; then memory /dev/shm mode=1777; fi
    for folder in /root "$project"; do
        if [ -d "$folder" ]; then memory "$folder" mode=711,size=1m; fi
    done
    # A Python may load its library by the full path at which it was installed, so it is there as well.
    if [ ! -d "$python/bin" ]; then mkdir -p "$python"; bind "$software/python" "$python"; fi
    bind "$own/tmp" /tmp
}

# The laptop is this computer with another network and home, and with names and users of its own.
laptop() {
    local file
    for file in passwd group hosts nsswitch.conf resolv.conf hostname; do
        if [ -e "/etc/$file" ]; then bind "$run/laptop/etc/$file" "/etc/$file"; fi
    done
}

mount --make-rprivate /
mount -t proc proc /proc
"$role"
hostname "$host"
cd /
echo ready >&3
exec 3>&-
while :; do
    sleep infinity &
    wait $!
done
