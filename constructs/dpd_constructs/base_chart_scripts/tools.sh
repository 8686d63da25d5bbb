#!/usr/bin/env bash
# Fetch helm and kubectl from the cluster's kubectl layer, and sign in to the cluster.
# Needs KUBECTL_LAYER_ARN, CLUSTER_NAME and ACCESS_WAIT_S.
set -euo pipefail

content=$(aws lambda get-layer-version-by-arn --arn "$KUBECTL_LAYER_ARN" \
  --query 'Content.[CodeSha256,Location]' --output text)
read -r expected location <<<"$content"
curl --fail --silent --show-error --location --retry 3 --output layer.zip "$location"
seen=$(openssl dgst -sha256 -binary layer.zip | base64)
if [[ $seen != "$expected" ]]; then
  echo "kubectl layer: the archive's SHA-256 is $seen, Lambda says $expected" >&2
  exit 1
fi
unzip -q -o layer.zip -d tools

aws eks update-kubeconfig --name "$CLUSTER_NAME"

# A new access entry takes a while to spread; until then the API server answers "Unauthorized".
deadline=$((SECONDS + ACCESS_WAIT_S))
until answer=$(tools/kubectl/kubectl auth can-i '*' '*' --all-namespaces --request-timeout=20s 2>&1); do
  if ((SECONDS >= deadline)); then
    echo "no administrator access to cluster $CLUSTER_NAME after ${ACCESS_WAIT_S} s: $answer" >&2
    exit 1
  fi
  sleep 5
done
echo "signed in to cluster $CLUSTER_NAME"
