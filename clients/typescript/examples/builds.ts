/**
 * Builds: each commit pushed to GitHub requests one build.
 *
 * GitHub signs the body, but not the delivery id or the event name. So the fact is named by signed data: the repository and
 * the commit. A push replayed under a new id requests no further build.
 */
import {
  type Event,
  type Fact,
  factOf,
  type Handler,
  handler,
  IGNORE,
  type Ignore,
  type ItemKey,
  Plan,
} from "../src/index.js";

/** The signed fields of a push that matter here. */
type Push = {
  readonly reference: string;
  readonly before: string;
  readonly after: string;
  readonly deleted: boolean;
  readonly repository: bigint;
  readonly fullName: string;
};

/** Turns GitHub pushes into build requests. */
class Builds implements Handler {
  fact(event: Event): Fact | Ignore {
    if (event.provider !== "github" || event.type !== "push") return IGNORE;
    const { deleted, repository, reference, before, after } = read(event);
    return deleted ? factOf("deleted", repository, reference, before) : factOf("build", repository, after);
  }

  reads(): ItemKey[] {
    return [];
  }

  plan(event: Event): Plan {
    const push = read(event);
    const plan = new Plan();
    if (push.deleted) return plan;
    plan.create(event.once("build", push.repository, push.after), {
      repository: push.fullName,
      commit: push.after,
      ref: push.reference,
      requested_at: event.receivedAtMs,
      state: "REQUESTED",
    });
    plan.update(event.itemKey("repository", push.repository), { add: { builds: 1 } });
    return plan;
  }
}

function read(event: Event): Push {
  const body = event.read("PUSH_UNREADABLE");
  return {
    reference: body.text("ref"),
    before: body.text("before"),
    after: body.text("after"),
    deleted: body.optional("deleted")?.flag() ?? false,
    repository: body.integer("repository", "id"),
    fullName: body.text("repository", "full_name"),
  };
}

export const lambdaHandler = handler(new Builds());
