/* A job's life in the worker, from its claim to its end: what it waits for, what can happen then,
 * and what is to be done about it.
 *
 *     CLAIMING -> PARKED -> CLAIMING            another worker has it: asked again
 *              -> WAITING -> ADMITTED -> RUNNING -> SEALING -> PUBLISHING -> FINISHING -> GONE
 *                 RESTING <--- the engine has failed: tried again
 *                             STOPPING <------- it is no longer ours to run
 *
 * A job is an orphan while none of its records belongs to this worker any more. An orphan begins
 * nothing: what has not begun to run is given back at once, what runs may end within a grace.
 *
 * Invariants, for which test_job_life walks the whole table: nothing is published that was not
 * offered to be sealed before; nothing that is sealed is stopped, given back or run; the engine is
 * left only by a ticket's final event, but by one that expires in its queue, whose event is then
 * nobody's; every life can come to its end.
 *
 * Pure: no time, no I/O, any thread. Refuses to know Kafka, Redis and the engine. */
#ifndef SOLFLEET_CONSUMER_JOB_LIFE_H
#define SOLFLEET_CONSUMER_JOB_LIFE_H

#include <stdbool.h>

/* What a job waits for. */
enum job_life_state {
    JOB_LIFE_CLAIMING,   /* Redis: whose is the id? */
    JOB_LIFE_PARKED,     /* the end of another worker's work on it, or of its lease */
    JOB_LIFE_WAITING,    /* room in the engine, or to be alone in it */
    JOB_LIFE_RESTING,    /* the time of its next try, after the engine failed */
    JOB_LIFE_ADMITTED,   /* the engine: its beginning */
    JOB_LIFE_RUNNING,    /* the engine: its end */
    JOB_LIFE_STOPPING,   /* the engine: its end, which no longer matters; then `then` is done */
    JOB_LIFE_SEALING,    /* Redis: does the outcome stand? */
    JOB_LIFE_PUBLISHING, /* the brokers: is it on its topics? */
    JOB_LIFE_FINISHING,  /* Redis: the terminal status */
    JOB_LIFE_GONE,
    JOB_LIFE_STATE_COUNT
};

enum job_life_event {
    /* Answers to a claim. The first four may also come late, when the claim has been answered NEW
     * for want of a server. */
    JOB_LIFE_IS_DONE,           /* it has been answered before */
    JOB_LIFE_IS_SEALED,         /* its outcome stands, and is to be published */
    JOB_LIFE_IS_POISON,         /* it has killed too many workers */
    JOB_LIFE_IS_CONFLICT,       /* the id belongs to another record, or may */
    JOB_LIFE_IS_NEW,            /* ours, to be computed */
    JOB_LIFE_IS_MALFORMED,      /* ours, and no job */
    JOB_LIFE_IS_HELD_HERE,      /* another ticket here has it */
    JOB_LIFE_IS_HELD_ELSEWHERE, /* another worker has it */
    JOB_LIFE_DUE,               /* its time has come: to ask, or to try, again */
    /* The engine. */
    JOB_LIFE_ADMIT,  /* it has taken the job */
    JOB_LIFE_REJECT, /* it never will */
    JOB_LIFE_START,
    JOB_LIFE_END,
    JOB_LIFE_STOPPED,     /* ended only because it was cancelled */
    JOB_LIFE_BREAK,       /* the engine failed, not the job: worth another try */
    JOB_LIFE_ENGINE_GONE, /* no event will come any more */
    /* The way out. */
    JOB_LIFE_SEAL_HOLDS,    /* or no server to say so */
    JOB_LIFE_SEAL_OLDER,    /* another outcome stands, and is to be published instead */
    JOB_LIFE_SEAL_TERMINAL, /* it has been answered meanwhile */
    JOB_LIFE_SEAL_CONFLICT, /* the id belongs to another record */
    JOB_LIFE_ACKNOWLEDGE,
    JOB_LIFE_ACKNOWLEDGE_LETTER, /* there was no result beside the dead letter */
    JOB_LIFE_WRITE,              /* the terminal status is written, or kept for the server */
    /* From outside. */
    JOB_LIFE_LOSE,     /* the lease: another worker has taken it over */
    JOB_LIFE_EXPIRE,   /* its time is over before it has begun */
    JOB_LIFE_CALL_OFF, /* its client wants no answer, or none so late */
    JOB_LIFE_ORPHAN,   /* none of its records is ours any more */
    JOB_LIFE_JOIN,     /* one more record of ours is answered by it */
    JOB_LIFE_GIVE_UP,  /* an orphan's time is over */
    JOB_LIFE_EVENT_COUNT
};

enum job_life_action {
    JOB_LIFE_IMPOSSIBLE = 0, /* a bug */
    JOB_LIFE_NOTHING,
    JOB_LIFE_DO_CLAIM,
    JOB_LIFE_DO_PARK,
    JOB_LIFE_DO_WAIT,
    JOB_LIFE_DO_WAIT_AGAIN, /* what the engine had is to be made again */
    JOB_LIFE_DO_REST,
    JOB_LIFE_DO_NOTE_START,
    JOB_LIFE_DO_STOP,            /* in the engine; `then` when it has ended */
    JOB_LIFE_DO_CALL_OFF,        /* in the engine: its end is the job's */
    JOB_LIFE_DO_SEAL,            /* how the engine ended it */
    JOB_LIFE_DO_FAIL,            /* seal a result that says why there is no answer */
    JOB_LIFE_DO_FAIL_AND_LETTER, /* the same, with a dead letter to be published beside it */
    JOB_LIFE_DO_LETTER,          /* publish a dead letter only */
    JOB_LIFE_DO_END_UNRUN,       /* seal a result that says that it was called off */
    JOB_LIFE_DO_PUBLISH,
    JOB_LIFE_DO_PUBLISH_SEALED, /* the outcome that stood before */
    JOB_LIFE_DO_FINISH,
    JOB_LIFE_DO_JOIN,           /* hand the records over to the ticket that has the job */
    JOB_LIFE_DO_SETTLE,         /* answered by us */
    JOB_LIFE_DO_SETTLE_AS_DONE, /* answered before */
    JOB_LIFE_DO_GIVE_BACK,      /* the claim, uncounted; then forget */
    JOB_LIFE_DO_FORGET,
    JOB_LIFE_ACTION_COUNT
};

struct job_life {
    enum job_life_state state;
    enum job_life_action then; /* STOPPING */
    bool is_orphan;
};

/* Moves on by an event, and says what is to be done. IMPOSSIBLE leaves *life as it was. An outcome
 * that stood before (IS_SEALED, SEAL_OLDER) is the caller's to keep until then. */
enum job_life_action job_life_take(struct job_life *life, enum job_life_event event);

/* The engine has a ticket for it. */
bool job_life_is_in_engine(const struct job_life *life);
/* Its lease is to be kept: it is claimed, and has not ended. */
bool job_life_needs_lease(const struct job_life *life);

#endif
