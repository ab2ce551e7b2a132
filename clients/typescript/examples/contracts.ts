import { type Event, type Fact, factOf, handler, IGNORE, type Ignore, type ItemKey, Plan } from "../src/index.js";

/** Stores each signed contract once, and counts the contracts of each customer. */
export class Contracts {
  fact(event: Event): Fact | Ignore {
    if (event.type !== "contract.signed") return IGNORE;
    return factOf(event.read("CONTRACT_UNREADABLE").text("contract"));
  }

  reads(): ItemKey[] {
    return [];
  }

  plan(event: Event): Plan {
    const body = event.read("CONTRACT_UNREADABLE");
    const [contract, customer] = [body.text("contract"), body.text("customer")];
    const plan = new Plan();
    plan.create(event.once("contract", contract), { customer, received_at: event.receivedAtMs });
    plan.update(event.itemKey("customer", customer), { add: { contracts: 1 } });
    return plan;
  }
}

export const lambdaHandler = handler(new Contracts());
