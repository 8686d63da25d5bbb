#!/usr/bin/env bash
# Fetch the chart's folder at one commit, and prove that it is what the configuration pins.
# Needs ACTION, REPOSITORY, COMMIT and FOLDER. REPOSITORY is a Git repository, or s3://bucket/key.tar: an
# archive of the folder that holds its dependencies already. ARCHIVE_SHA256 is the digest of the archive; for
# a repository it may be empty, where nobody has pinned it.
set -euo pipefail

# Empty also for a removal, which needs no chart and must work when the repository is gone.
: >archive.sha256
if [[ $ACTION == uninstall ]]; then
  exit 0
fi

if [[ $REPOSITORY == s3://* ]]; then
  # An object has no commit that would vouch for it.
  if [[ -z $ARCHIVE_SHA256 ]]; then
    echo "chart: an archive in a bucket needs its SHA-256" >&2
    exit 1
  fi
  aws s3 cp --only-show-errors "$REPOSITORY" chart.tar
else
  # A commit id is a digest over the whole tree, and git checks every object against its id.
  git init --quiet source
  git -C source -c fetch.fsckObjects=true fetch --quiet --depth 1 "$REPOSITORY" "$COMMIT"
  seen_commit=$(git -C source rev-parse 'FETCH_HEAD^{commit}')
  if [[ $seen_commit != "$COMMIT" ]]; then
    echo "chart: fetched commit $seen_commit, configured is $COMMIT" >&2
    exit 1
  fi
  # From the commit, not from its tree: only then are the archive's times fixed. Modes are fixed, too.
  git -C source -c tar.umask=0002 archive --format=tar "$COMMIT" "$FOLDER" >chart.tar
fi

seen=$(sha256sum chart.tar | cut -d' ' -f1)
echo "chart: commit $COMMIT, folder $FOLDER, archive SHA-256 $seen"
if [[ -n $ARCHIVE_SHA256 && $seen != "$ARCHIVE_SHA256" ]]; then
  echo "chart: the archive's SHA-256 is $seen, configured is $ARCHIVE_SHA256" >&2
  exit 1
fi
mkdir -p chart
tar -xf chart.tar -C chart
echo "$seen" >archive.sha256

if [[ $REPOSITORY != s3://* ]]; then
  tools/helm/helm dependency build "chart/$FOLDER"
fi
sha256sum "chart/$FOLDER"/charts/*.tgz
