#!/usr/bin/env bash
# Fetch helm and kubectl from the cluster's kubectl layer, and sign in to the cluster.
# Needs ACTION, KUBECTL_LAYER_ARN, CLUSTER_NAME, CLUSTER_IS_OURS and ACCESS_WAIT_S.
set -euo pipefail

# A failed installation is rolled back by a removal, which fails for the same reason where the cluster is
# out of reach, and leaves the stack in ROLLBACK_FAILED. A cluster of the stacks takes its releases along;
# in somebody else's the release would stay, so there the failure must be seen.
out_of_reach() {
  echo "$1" >&2
  if [[ $ACTION != uninstall || $CLUSTER_IS_OURS != true ]]; then
    exit 1
  fi
  echo "nothing to remove the release with: it goes with cluster $CLUSTER_NAME"
  touch cluster.out_of_reach
  exit 0
}

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

aws eks update-kubeconfig --name "$CLUSTER_NAME" || out_of_reach "cluster $CLUSTER_NAME cannot be described"

# A new access entry takes a while to spread; until then the API server answers "Unauthorized".
deadline=$((SECONDS + ACCESS_WAIT_S))
until answer=$(tools/kubectl/kubectl auth can-i '*' '*' --all-namespaces --request-timeout=20s 2>&1); do
  if ((SECONDS >= deadline)); then
    out_of_reach "no administrator access to cluster $CLUSTER_NAME after ${ACCESS_WAIT_S} s: $answer"
  fi
  sleep 5
done
echo "signed in to cluster $CLUSTER_NAME"
