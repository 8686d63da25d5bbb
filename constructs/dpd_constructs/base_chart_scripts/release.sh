#!/usr/bin/env bash
# Install, upgrade or remove the release. Needs ACTION, RELEASE, NAMESPACE, FOLDER and VALUES (JSON).
set -euo pipefail

if [[ $ACTION == uninstall ]]; then
  tools/helm/helm uninstall "$RELEASE" --namespace "$NAMESPACE" --ignore-not-found --timeout "$HELM_TIMEOUT"
  exit 0
fi

printf '%s' "$VALUES" >values.json
# No --wait: the first nodes come after this chart, so its pods cannot run yet. Helm's limit lies
# below the build's, since a helm that is killed leaves the release in a pending state (aws-cdk#22257).
tools/helm/helm upgrade --install "$RELEASE" "chart/$FOLDER" --namespace "$NAMESPACE" \
  --values values.json --timeout "$HELM_TIMEOUT"
tools/helm/helm status "$RELEASE" --namespace "$NAMESPACE"
