/*
 * A gRPC health server for tests: speaks just enough HTTP/2 to answer grpc.health.v1.Health/Check, whatever is asked.
 *
 *   grpc-health PORT FILE
 *
 * FILE holds the status to answer with, as a digit: 1 serving, 2 not serving; another, or no file: the call fails with
 * UNIMPLEMENTED. One connection at a time, each with one call, as probes make them.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { DATA = 0, HEADERS = 1, SETTINGS = 4, END_STREAM = 1, ACK = 1, END_HEADERS = 4, PREFACE = 24 };

static int take(int peer, unsigned char *to, size_t count) {
    while (count > 0) {
        ssize_t got = read(peer, to, count);
        if (got <= 0) {
            return 0;
        }
        to += got;
        count -= (size_t)got;
    }
    return 1;
}

static void frame(int peer, int kind, int flags, uint32_t stream, const void *payload, size_t length) {
    unsigned char out[9 + 256] = {0,
                                  (unsigned char)(length >> 8),
                                  (unsigned char)length,
                                  (unsigned char)kind,
                                  (unsigned char)flags,
                                  (unsigned char)(stream >> 24),
                                  (unsigned char)(stream >> 16),
                                  (unsigned char)(stream >> 8),
                                  (unsigned char)stream};
    memcpy(out + 9, payload, length);
    if (write(peer, out, 9 + length) < 0) {
        return;
    }
}

/* A header that is not indexed and whose name and value are plain text. */
static size_t header(unsigned char *at, const char *name, const char *value) {
    size_t name_length = strlen(name), value_length = strlen(value);
    at[0] = 0;
    at[1] = (unsigned char)name_length;
    memcpy(at + 2, name, name_length);
    at[2 + name_length] = (unsigned char)value_length;
    memcpy(at + 3 + name_length, value, value_length);
    return 3 + name_length + value_length;
}

static int status_of(const char *path) {
    FILE *file = fopen(path, "r");
    int found = file ? fgetc(file) - '0' : 0;
    if (file) {
        fclose(file);
    }
    return found;
}

static void answer(int peer, uint32_t stream, int status) {
    unsigned char block[128] = {0x88}; /* :status 200 */
    size_t length = 1 + header(block + 1, "content-type", "application/grpc");
    if (status == 1 || status == 2) {
        const unsigned char message[] = {0, 0, 0, 0, 2, 8, (unsigned char)status};
        frame(peer, HEADERS, END_HEADERS, stream, block, length);
        frame(peer, DATA, 0, stream, message, sizeof message);
        length = header(block, "grpc-status", "0");
    } else {
        length += header(block + length, "grpc-status", "12");
    }
    frame(peer, HEADERS, END_HEADERS | END_STREAM, stream, block, length);
}

static void serve(int peer, const char *path) {
    unsigned char head[9], skipped[16384];
    if (!take(peer, skipped, PREFACE)) {
        return;
    }
    frame(peer, SETTINGS, 0, 0, "", 0);
    while (take(peer, head, sizeof head)) {
        size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        uint32_t stream = ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]);
        if (length > sizeof skipped || !take(peer, skipped, length)) {
            return;
        }
        if (head[3] == SETTINGS && !(head[4] & ACK)) {
            frame(peer, SETTINGS, ACK, 0, "", 0);
        }
        if ((head[3] == DATA || head[3] == HEADERS) && head[4] & END_STREAM) {
            answer(peer, stream & 0x7fffffff, status_of(path));
        }
    }
}

int main(int count, char **words) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 5};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(count > 2 ? (uint16_t)atoi(words[1]) : 0)};
    signal(SIGPIPE, SIG_IGN);
    if (count < 3 || listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 16)) {
        perror("grpc-health");
        return EXIT_FAILURE;
    }
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        if (peer >= 0) {
            setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
            serve(peer, words[2]);
            close(peer);
        }
    }
}
