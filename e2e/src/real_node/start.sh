# The first process of a node's own PID and mount namespaces: containerd, the images, the kubelet. When it is killed, the
# kernel kills every process of the node, and every mount goes with the last of them.
#
# FOLDER is the node's; CONTAINERD, CTR and KUBELET are the programs; KUBELET_ARGS the kubelet's arguments.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
socket=/run/containerd/containerd.sock

# What programs keep in places of their own choice is kept in the node's folder, also by two nodes on one machine.
mkdir "$FOLDER"/{run,log,lib,lib-work}
mount --bind "$FOLDER/run" /run
mount --bind "$FOLDER/log" /var/log
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$FOLDER/lib,workdir=$FOLDER/lib-work" /var/lib
# As on any node: mounts that a volume gets later are seen by containers that ask for it.
mount --make-rshared /

"$CONTAINERD" --config "$FOLDER/containerd.toml" &
containerd=$!
until "$CTR" --address "$socket" version &>/dev/null; do
  kill -0 "$containerd"
  sleep 0.05
done
"$CTR" --address "$socket" --namespace k8s.io images import "$FOLDER/images.tar"
# shellcheck disable=SC2086 # none of the arguments holds white space
"$KUBELET" $KUBELET_ARGS &
# Whichever ends first ends the node.
wait -n
