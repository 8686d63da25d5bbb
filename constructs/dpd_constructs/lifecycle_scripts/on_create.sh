#!/bin/bash
# Put container images and pod storage on the local volume of a HyperPod node.
#
# HyperPod runs this once, when it creates a node; a systemd unit runs it again (`boot`) after each
# restart. The root disk is small and fills up with inference images, while GPU nodes carry terabytes
# of NVMe that HyperPod mounts at /opt/sagemaker (awslabs/awsome-distributed-ai#927).
#
# Exit codes: 0 done, or nothing to do; 2 wrong usage; 10 the volume never appeared; 11 copying failed;
# 12 a directory could not be bound; 13 a service did not stop; 14 a service did not start;
# 15 the boot unit could not be written.
set -euo pipefail

root="${DPD_ROOT:-}" # tests run the script against a directory
volume="${root}/opt/sagemaker"
log_file="${root}/var/log/dpd-storage.log"
program="${root}/usr/local/sbin/dpd-storage"
units="${root}/etc/systemd/system"
wait_s="${DPD_VOLUME_WAIT_S:-300}"

directories=(/var/lib/containerd /var/lib/kubelet)
services=(kubelet containerd) # in the order in which they stop; they start the other way round

stopped=()
bound=()

log() {
  printf '%s dpd-storage: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*" | tee -a "${log_file}"
}

fail() {
  local code="$1"
  shift
  log "error: $*"
  exit "${code}"
}

has_instance_store() {
  local model
  for model in "${root}"/sys/block/nvme*/device/model; do
    if [[ -r "${model}" ]] && grep -q 'Instance Storage' "${model}"; then
      return 0
    fi
  done
  return 1
}

wait_for_volume() {
  local waited_s=0
  until mountpoint -q "${volume}"; do
    if ((waited_s >= wait_s)); then
      fail 10 "${volume} is not mounted after ${wait_s} s although the node has NVMe instance storage"
    fi
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

is_placed() {
  local directory
  for directory in "${directories[@]}"; do
    mountpoint -q "${root}${directory}" || return 1
  done
}

stop_services() {
  local service
  for service in "${services[@]}"; do
    if ! systemctl cat "${service}.service" >/dev/null 2>&1; then
      log "${service} is not installed"
    elif systemctl is-active --quiet "${service}.service"; then
      # Noted first: a stop that fails halfway still needs the start.
      stopped+=("${service}")
      systemctl stop "${service}.service" || fail 13 "${service} did not stop"
      log "stopped ${service}"
    fi
  done
}

start_services() {
  local index service
  for ((index = ${#stopped[@]} - 1; index >= 0; index--)); do
    service="${stopped[index]}"
    systemctl start "${service}.service" || fail 14 "${service} did not start"
    log "started ${service}"
  done
  stopped=()
}

# The content is copied beside its final name and renamed, so that a directory on the volume is either
# whole or absent. What lies on the root disk stays there, hidden: a node that comes back with an empty
# instance store starts from it again.
copy_to_volume() {
  local source="$1" target="$2"
  rm -rf "${target}.partial" "${target}"
  if ! { mkdir -p "${source}" "${target}.partial" &&
    cp --archive --one-file-system "${source}/." "${target}.partial/" 2>>"${log_file}" &&
    mv "${target}.partial" "${target}"; }; then
    rm -rf "${target}.partial"
    fail 11 "copying ${source} to ${target} failed"
  fi
}

place() {
  local mode="$1" directory="$2"
  local source="${root}${directory}" target="${volume}${directory}"
  if mountpoint -q "${source}"; then
    return
  fi
  if [[ "${mode}" == create || ! -d "${target}" ]]; then
    copy_to_volume "${source}" "${target}"
  fi
  # A bind mount and not a symbolic link: CSI drivers compare kubelet's paths with the mount table.
  mount --bind "${target}" "${source}" || fail 12 "binding ${target} to ${source} failed"
  bound+=("${source}")
  log "${source} is on ${target}"
}

unit_text() {
  cat <<UNIT
[Unit]
Description=Container and pod storage on the local volume
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${program} boot

[Install]
WantedBy=multi-user.target
UNIT
}

write_boot_unit() {
  local service drop_in
  {
    mkdir -p "${program%/*}" "${units}" &&
      install -m 0755 "${BASH_SOURCE[0]}" "${program}" &&
      unit_text >"${units}/dpd-storage.service"
  } || fail 15 "the boot unit could not be written"
  for service in "${services[@]}"; do
    drop_in="${units}/${service}.service.d/10-dpd-storage.conf"
    # Required: a service that started before the volume would fill the root disk unseen. A node whose
    # boot unit fails stays NotReady instead, and HyperPod replaces it.
    {
      mkdir -p "${drop_in%/*}" &&
        printf '[Unit]\nRequires=dpd-storage.service\nAfter=dpd-storage.service\n' >"${drop_in}"
    } || fail 15 "${drop_in} could not be written"
  done
  { systemctl daemon-reload && systemctl enable dpd-storage.service; } ||
    fail 15 "the boot unit could not be enabled"
}

remove_boot_unit() {
  local service
  systemctl disable dpd-storage.service >/dev/null 2>&1 || true
  for service in "${services[@]}"; do
    rm -f "${units}/${service}.service.d/10-dpd-storage.conf"
  done
  rm -f "${units}/dpd-storage.service"
  systemctl daemon-reload || true
}

# HyperPod replaces a node whose script failed, but until then the node should run as it did before.
restore() {
  local code=$? index
  trap - EXIT
  if ((code == 0)); then
    return
  fi
  for ((index = 0; index < ${#stopped[@]}; index++)); do
    systemctl stop "${stopped[index]}.service" || true # a running service keeps its directory busy
  done
  for ((index = ${#bound[@]} - 1; index >= 0; index--)); do
    umount "${bound[index]}" || log "warning: ${bound[index]} is still bound"
  done
  remove_boot_unit
  for ((index = ${#stopped[@]} - 1; index >= 0; index--)); do
    if systemctl start "${stopped[index]}.service"; then
      log "restored ${stopped[index]}"
    else
      log "warning: ${stopped[index]} is down"
    fi
  done
  exit "${code}"
}

create() {
  local directory
  if is_placed; then
    log "storage is already on ${volume}"
    return
  fi
  trap restore EXIT
  stop_services
  for directory in "${directories[@]}"; do
    place create "${directory}"
  done
  write_boot_unit
  start_services
  trap - EXIT
  log "storage is on ${volume}"
}

boot() {
  local directory
  for directory in "${directories[@]}"; do
    place boot "${directory}"
  done
}

main() {
  local mode="${1:-create}"
  mkdir -p "${log_file%/*}"
  if [[ "${mode}" != create && "${mode}" != boot ]]; then
    fail 2 "usage: $0 [create|boot]"
  fi
  if ! mountpoint -q "${volume}" && ! has_instance_store; then
    log "no volume at ${volume} and no NVMe instance storage: storage stays on the root disk"
    return
  fi
  wait_for_volume
  "${mode}"
}

main "$@"
