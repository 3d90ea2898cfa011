#!/usr/bin/env bash
# comment.sh REPORT.md: writes the report as a comment on the pull request $PR of $REPOSITORY, in place of the last one
# of the same $NAME. It is found by a mark in its first line, and only among the comments of bots: who else writes that
# mark changes nothing.
set -euo pipefail

export MARK="<!-- pytest-rageval: $NAME -->"
body=$(mktemp)
trap 'rm -f "$body"' EXIT
{ printf '%s\n' "$MARK"; cat "$1"; } > "$body"

found='.[] | select(.user.type == "Bot" and (.body | startswith(env.MARK))) | .id'
id=$(gh api --paginate "repos/$REPOSITORY/issues/$PR/comments" --jq "$found" | sed -n 1p)
if [ -n "$id" ]; then
  gh api --silent --method PATCH "repos/$REPOSITORY/issues/comments/$id" --field "body=@$body"
else
  gh api --silent --method POST "repos/$REPOSITORY/issues/$PR/comments" --field "body=@$body"
fi
