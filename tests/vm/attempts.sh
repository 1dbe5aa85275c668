#!/bin/bash
# Tries what the unit refuses and what it allows, and prints a line for each. The programs of the restrictions machine run
# it as children of the agent; the machine itself runs it outside of the unit, where all of it works.
trial() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "$name works"; else echo "$name fails"; fi
}
# By number, with zeros for arguments; perl is part of every Debian. Another fault than EPERM means that the call went through.
call() { perl -e '$! = 0; my $buffer = "\0" x 256; syscall($ARGV[0] + 0, 0, $buffer, 0, 0, 0); exit($!{EPERM} ? 1 : 0)' "$1"; }
family() { perl -e 'socket(my $socket, $ARGV[0], $ARGV[1], $ARGV[2]) or exit 1' "$@"; } # FAMILY TYPE PROTOCOL
place=$(mktemp -d)

sed -n 's/^\(Seccomp\|CapBnd\):\s*/\1 /p' /proc/self/status
echo "--- refused"
trial "a mount namespace" unshare -m true
trial "a network namespace" unshare -n true
trial "a user namespace" unshare -U true
trial "entering a namespace" nsenter -t 1 -n true
trial "another root" chroot / true
trial "the clock" date -s "@$(date +%s)"
trial "the machine's name" hostname "$(hostname)"
trial "a device node" mknod "$place/node" b 7 99
trial "tracing" perl -e 'exit(syscall(101, 0, 0, 0, 0) == 0 ? 0 : 1)'
# x86-64: bpf, perf_event_open, userfaultfd, io_uring_setup, kexec_load, swapoff, iopl, acct.
for number in 321 298 323 425 246 168 172 163; do trial "system call $number" call $number; done
trial "raw frames" family 17 3 0
trial "the kernel's cryptography" family 38 5 0
trial "a file that nobody may change" bash -c "touch $place/fixed && chattr +i $place/fixed && chattr -i $place/fixed"
echo "--- allowed"
trial "a bind mount" bash -c "mkdir $place/bound && mount --bind /srv $place/bound && umount $place/bound"
trial "a tmpfs" bash -c "mkdir $place/tmpfs && mount -t tmpfs none $place/tmpfs && umount $place/tmpfs"
trial "another owner" bash -c "mkdir $place/shared && chown 1000:2000 $place/shared"
trial "the set-group-ID bit" bash -c "chmod g+s $place/shared && test -g $place/shared"
trial "another's file" bash -c "echo x >$place/shared/x && chown 1000 $place/shared/x && chmod 0600 $place/shared/x && cat $place/shared/x"
trial "another user" setpriv --reuid 1000 --regid 1000 --clear-groups true
trial "netlink" family 16 3 0
trial "raw packets" family 2 3 255
trial "a module" modprobe xfs
trial "the kernel's log" dd if=/dev/kmsg bs=8192 count=1 iflag=nonblock
trial "a loop device" bash -c "truncate -s 1M $place/disk && losetup -d \$(losetup -f --show $place/disk)"
trial "the open files of the first process" ls /proc/1/fd
rm -rf "$place"
