#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
static void *work(void *a){ long n=(long)a; volatile long s=0; for(long i=0;i<n*3000000L;i++) s+=i; char*p=malloc(1<<22); for(int i=0;i<1<<22;i+=4096) p[i]=1; free(p); for(long i=0;i<n*3000000L;i++) s+=i; return 0;}
int main(){ pthread_t t[4]; for(long i=0;i<4;i++) pthread_create(t+i,0,work,(void*)(i+3)); if(!fork()){work((void*)8);_exit(0);} for(int i=0;i<4;i++) pthread_join(t[i],0); wait(0); return 0;}
