#!/bin/bash
# Runs as root on the controller of the test cluster: one job for each way to end that the tests need, found by name.
# Prints the job ids as one list, as the tests ask for them. Takes about two minutes (a time limit, a requeue delay).
set -u
as() { (cd /shared/alice && exec runuser -u alice -- "$@"); }
ids=()
mapfile -t nodes < <(sinfo -h -N -o %N | sort -u)
submit() { id=$(as sbatch --parsable "$@" 2> /dev/null) && ids+=("$id"); }
until_state() { for _ in {1..120}; do [[ $(squeue -h -j "$1" -o %T 2> /dev/null) == "$2" ]] && return; sleep .5; done; }
submit -J ok --wrap 'srun hostname'
submit -J exit9 --wrap 'exit 9'
submit -J exit137 --wrap 'exit 137'
submit -J sig9 --wrap 'kill -9 $$'
submit -J step137 --wrap 'srun bash -c "exit 137"; exit 1'
submit -J stepfail --wrap 'srun false; srun true; exit 0'
submit -J oom --mem=100 --wrap 'srun python3 -c "x=bytearray(400<<20); import time; time.sleep(5)"; exit 1'
submit -J missing --wrap 'srun /no/such/program'
submit -J two -N2 -o 'o-%j-%x-%N.log' -e '/shared/alice/e-%5j.err' --wrap 'srun hostname; exit 6'
submit -J escaped -o 'bs\\-%j-\-%j.log' --wrap true
submit -J symbols -o 's-%j-%J-%s-%N-%n-%t-%u-%x-%b-%A-%a-%%-%5j-%5N-%3t-%9x-%0j-%11j-%q-%.log' --wrap true
submit -J devnull -o /dev/null --wrap 'exit 1'
submit -J $'new\nline\x1f|x' --comment $'c\nJobId=1 JobState=FAILED Reason=NodeDown \x1f "q" $(id)' --wrap 'exit 5'
submit -J arr --array=0-2 -o 'out-%A_%a-%4a-%b.txt' --wrap '[ $SLURM_ARRAY_TASK_ID = 1 ] && exit 3; sleep 1'
ids[-1]="${ids[-1]}_0,${ids[-1]}_1,${ids[-1]}_2"
submit -J het -N1 : -N1 -J het --wrap 'srun --het-group=0,1 hostname; exit 4'
submit -J pend -H --wrap true; scancel "$id"
submit -J first --wrap 'exit 1'
submit -J dep --kill-on-invalid-dep=yes -d "afterok:$id" --wrap true
submit -J cancelled --wrap 'sleep 600'; until_state "$id" RUNNING; as scancel "$id"
submit -J timeout -t 1 --wrap 'sleep 600'; timeout=$id
submit -J resize -N2 --wrap 'srun -N2 hostname; sleep 3; scontrol update JobId=$SLURM_JOB_ID NumNodes=1
. ./slurm_job_${SLURM_JOB_ID}_resize.sh; srun -N1 hostname; sleep 3; exit 7'
submit -J requeued --requeue --wrap 'sleep 20'; until_state "$id" RUNNING; as scontrol requeue "$id"
submit -J preempted -w "${nodes[1]}" --exclusive --requeue --wrap 'sleep 20'; until_state "$id" RUNNING
submit -J urgent -p urgent -w "${nodes[1]}" --exclusive --wrap 'sleep 2'; until_state "$id" RUNNING
submit -J lost -w "${nodes[2]}" -N2 --requeue --wrap 'srun -N2 sleep 60'; lost=$id; until_state "$id" RUNNING
submit -J lost-for-good -w "${nodes[2]}" --no-requeue --wrap 'sleep 60'; until_state "$id" RUNNING
sleep 2
scontrol update node="${nodes[2]}" state=down reason="lost by the scenario"; sleep 3
scontrol update node="${nodes[2]}" state=resume 2> /dev/null
scancel "$lost"
until_state "$timeout" TIMEOUT
sleep 12
scontrol update node="${nodes[2]}" state=drain reason="drained: x=1 [a]"
scontrol -o show node "${nodes[2]}" > /tmp/drained
scontrol update node="${nodes[2]}" state=resume
(IFS=,; echo "${ids[*]}")
