#!/usr/bin/env bash
# Install, upgrade or remove the release. Needs ACTION, RELEASE, NAMESPACE, FOLDER and VALUES (JSON).
set -euo pipefail

if [[ $ACTION == uninstall ]]; then
  if [[ -e cluster.out_of_reach ]]; then
    exit 0
  fi
  tools/helm/helm uninstall "$RELEASE" --namespace "$NAMESPACE" --ignore-not-found --timeout "$HELM_TIMEOUT"
  exit 0
fi

printf '%s' "$VALUES" >values.json
# No --wait: the first nodes come after this chart, so its pods cannot run yet. Helm's limit lies
# below the build's, since a helm that is killed leaves the release in a pending state (aws-cdk#22257).
# Helm 4 refuses a field that somebody else has set, such as by kubectl (k3s-io/helm-controller#343); the
# configuration wins here, as it did under Helm 3. Forcing needs the server's side, which Helm does not
# choose by itself for a release that Helm 3 made.
tools/helm/helm upgrade --install "$RELEASE" "chart/$FOLDER" --namespace "$NAMESPACE" \
  --values values.json --timeout "$HELM_TIMEOUT" --server-side=true --force-conflicts
tools/helm/helm status "$RELEASE" --namespace "$NAMESPACE"
