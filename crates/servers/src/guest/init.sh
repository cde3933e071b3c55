#!/bin/busybox sh
# The first program of the guest. What it does at its start is told by its seed, in lines of comments
# (`# guest-run: command`) and in the two lists of cloud-init that it understands: users by their
# names, and keys. It ends when the power button is pressed.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin HOME=/root
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
# Which of them needs which differs from kernel to kernel: what came too early comes again.
for pass in 1 2 3; do
    while read module; do
        [ -d /sys/module/${module%.ko} ] || insmod /modules/$module 2>/dev/null
    done < /modules/order
done
for disk in /dev/vd?; do
    mount -t iso9660 -o ro $disk /seed 2>/dev/null && break
done
for card in /sys/class/net/eth*; do ip link set ${card##*/} up; done
ip link set lo up
ip address add 10.0.2.2/24 dev eth0 2>/dev/null
# Whoever asks from another network is answered too.
ip route add default via 10.0.2.1 2>/dev/null
sed -n 's/^.*"local-hostname" *: *"\([^"]*\)".*$/\1/p' /seed/meta-data > /etc/hostname 2>/dev/null
hostname -F /etc/hostname 2>/dev/null

told() { sed -n "$1" /seed/user-data 2>/dev/null; }
number=1000
for user in $(told 's/^ *\(- \)\?name: *//p'); do
    echo "$user:x:$number:$number::/users/$user:/bin/sh" >> /etc/passwd
    echo "$user:*:1:0:99999:7:::" >> /etc/shadow
    mkdir -p /users/$user/.ssh
    told 's/^ *- *\(ssh-\)/\1/p' > /users/$user/.ssh/authorized_keys
    chmod -R go-rwx /users/$user
    chown -R $number:$number /users/$user
    number=$((number + 1))
done
dropbear -R 2>/dev/null
told 's/^ *#\? *guest-run: //p' > /run.sh
sh /run.sh
for input in /sys/class/input/event*; do
    grep -q "Power Button" $input/device/name || continue
    (head -c 24 /dev/input/${input##*/} > /dev/null; poweroff -f) &
done
for port in /sys/class/virtio-ports/*; do
    grep -q org.qemu.guest_agent.0 $port/name || continue
    qemu-ga -p /dev/${port##*/} -t /run > /run/agent.log 2>&1 &
done
exec < /dev/console > /dev/console 2>&1
echo "guest is up"
while true; do setsid cttyhack sh; done
