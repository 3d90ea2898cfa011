#!/usr/bin/env bash
# Commits a baseline that the run has written, and pushes it to the branch: baseline.sh FILE BRANCH
set -euo pipefail
file=$1 branch=$2

if [ -z "$(git status --porcelain -- "$file")" ]; then
  echo "The baseline is as before."
  exit 0
fi
git add -- "$file"
git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
  commit --quiet --message "Baseline of $(git rev-parse --short HEAD) [skip ci]" -- "$file"
if git push --quiet origin "HEAD:$branch"; then
  exit 0
fi
git fetch --quiet origin "$branch"
if ! git merge-base --is-ancestor FETCH_HEAD HEAD; then
  echo "::notice::$branch has newer commits: their run writes the baseline."
  exit 0
fi
echo "::error::The baseline cannot be pushed to $branch. Give the job the permission 'contents: write', and let \
github-actions bypass the rules of the branch; or set update-baseline: \"false\", and write it in another way at every merge."
exit 1
