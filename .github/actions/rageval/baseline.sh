#!/usr/bin/env bash
# Commits a baseline that the run has written, and pushes it to the branch: baseline.sh FILE BRANCH
set -euo pipefail
file=$1 branch=$2

if [ -z "$(git status --porcelain -- "$file")" ]; then
  echo "The baseline is as before."
  exit 0
fi
git add -- "$file"
export GIT_AUTHOR_NAME="github-actions[bot]" GIT_AUTHOR_EMAIL="41898282+github-actions[bot]@users.noreply.github.com"
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
git commit --quiet --message "Baseline of $(git rev-parse --short HEAD) [skip ci]" -- "$file"
for _ in 1 2 3 4 5; do
  if git push --quiet origin "HEAD:$branch"; then
    exit 0
  fi
  git fetch --quiet origin "$branch"
  if git merge-base --is-ancestor FETCH_HEAD HEAD; then
    break
  fi
  # Not `grep -q`: it would end before git log, whose failed write would then count as no commit.
  if [ -n "$(git log --format=%s HEAD..FETCH_HEAD | grep -Ev '^Baseline of [0-9a-f]+ \[skip ci\]$')" ]; then
    echo "::notice::$branch has newer commits: their run writes the baseline."
    exit 0
  fi
  if ! git diff --quiet HEAD^ FETCH_HEAD -- "$file"; then
    echo "::notice::$branch has a newer baseline: another run of the same commit wrote it."
    exit 0
  fi
  # Only other jobs of this workflow have committed since, each the baseline of its own project: no run follows them.
  git rebase --quiet --autostash FETCH_HEAD
done
echo "::error::The baseline cannot be pushed to $branch. Give the job the permission 'contents: write', and let \
github-actions bypass the rules of the branch; or set update-baseline: \"false\", and write it in another way at every merge."
exit 1
