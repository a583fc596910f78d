/* Runs a program as the process of a given number: reborn PID PROGRAM ARGUMENT...
 *
 * clone3's set_tid asks the kernel for that number; it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, and the number must
 * be free. Prints nothing of its own; ends as the program ends, and the program with it. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
	pid_t number = count > 2 ? atoi(words[1]) : 0;
	struct clone_args arguments = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	int status;
	if (!number)
		return 2;
	long child = syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (child < 0) {
		perror("reborn: clone3");
		return 3;
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(words[2], words + 2);
		perror(words[2]);
		_exit(127);
	}
	if (waitpid(child, &status, 0) < 0)
		return 4;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
