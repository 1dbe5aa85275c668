/*
 * The program of a pod's sandbox container: holds the pod's namespaces open and, where the pod shares its process
 * namespace, reaps the processes that lost their parent. Ends at the first TERM or INT, as a sandbox must.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) {
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction on_end = {.sa_handler = end};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
    if (sigaction(SIGTERM, &on_end, NULL) || sigaction(SIGINT, &on_end, NULL) ||
        sigaction(SIGCHLD, &on_child, NULL)) {
        return EXIT_FAILURE;
    }
    for (;;) {
        pause();
    }
}
