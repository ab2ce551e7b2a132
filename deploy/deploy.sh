#!/usr/bin/env bash
# usage: ./deploy.sh [--stack NAME] [--plan] [--allow RESOURCE] [PARAMETER=VALUE...]
#
# Deploys the release in this folder to the account and the region of your AWS command line, or updates the stack: parameters
# that you do not name keep their values. --plan prints what would change. What may cost a table, a queue or the address is
# refused, and so is an earlier release, unless --allow names it, or `Release`. It needs the AWS command line, and `hookonce`
# of this release, on the PATH or in this folder.
set -euo pipefail
cd "$(dirname "$0")"

stack=hookonce
case ${1:-} in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${0##*/}"; exit ;;
    --stack) stack=${2:?a name}; shift 2 ;;
esac
case " $* " in *" --stack"*) echo "error: --stack NAME comes first" >&2; exit 2 ;; *" --plan "*) plans=yes ;; *) plans= ;; esac
PATH=$PWD:$PATH
command -v aws >/dev/null && command -v hookonce >/dev/null || { echo "error: aws or hookonce is not on the PATH" >&2; exit 2; }
release=$(grep -o '"Text": "[^"]*"' template.json | cut -d '"' -f 4) own=$(hookonce --version)
[ "$own" = "hookonce $release" ] || { printf '%s\n' "error: this is the archive of release $release, and the command is $own" \
    "try: put the hookonce of release $release into $PWD" >&2; exit 2; }
echo "1. The files are those of the release"
sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
sums --check --quiet SHA256SUMS
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
of_bucket() { aws cloudformation describe-stacks --stack-name "$stack-code" --output text --query "Stacks[0].$1"; }
output() { of_bucket "Outputs[?OutputKey=='$1'].OutputValue"; }
# Puts a file there by its hash, if the bucket is one of this account, and prints its name.
upload() {
    local name && name=$(sums "$1" | cut -c 1-64).${1##*.}
    local at=(--bucket "$bucket" --key "$name" --expected-bucket-owner "$account")
    aws s3api head-object "${at[@]}" >/dev/null 2>&1 || aws s3api put-object "${at[@]}" --body "$1" >/dev/null || return
    echo "$name"
}

echo "2. The code goes into a bucket of its own, which the stack $stack-code holds"
made=$(of_bucket "[StackStatus,join(',',sort(not_null(Outputs,\`[]\`)[].OutputKey))]" 2>"$work/log") ||
    { grep -q "does not exist" "$work/log" || { cat "$work/log" >&2; exit 1; }; made=NEW; }
case $made in
    CREATE_IN_PROGRESS* | DELETE_IN_PROGRESS* | ROLLBACK_IN_PROGRESS*) echo "error: the stack $stack-code is ${made%$'\t'*}: wait" >&2; exit 2 ;;
    CREATE_FAILED* | DELETE_FAILED* | ROLLBACK_*)
        printf '%s\n' "error: the stack $stack-code is ${made%$'\t'*}" \
            "try: if it is one of hookonce, empty its bucket, then aws cloudformation delete-stack --stack-name $stack-code" >&2; exit 2 ;;
    NEW | REVIEW_IN_PROGRESS* | *$'\t'Address,Bucket) [[ $plans$made = yes*Bucket ]] ||  # A plan changes nothing that is there.
        aws cloudformation deploy --no-fail-on-empty-changeset --stack-name "$stack-code" --template-file bucket.yaml 2>"$work/log" || { cat "$work/log" >&2; exit 1; } ;;
    *) echo "error: the stack $stack-code is not one of hookonce: take another --stack" >&2; exit 2 ;;
esac
account=$(aws sts get-caller-identity --query Account --output text); bucket=$(output Bucket); address=$(output Address); places=()
for code in *.zip; do
    name=$(upload "$code")
    places+=(-e "s|\"$code\"|{\"S3Bucket\": \"$bucket\", \"S3Key\": \"$name\"}|")
done
sed "${places[@]}" template.json >"$work/template.json"
template=$(upload "$work/template.json")
echo "3. CloudFormation brings the stack $stack to this release, which takes some minutes"
hookonce deploy --stack "$stack" --template "$address/$template" "$@"
[ -z "$plans" ] || exit 0

echo "4. What it still needs"
hookonce doctor --stack "$stack" || echo "The stack is there. The last lines above say what it needs."
