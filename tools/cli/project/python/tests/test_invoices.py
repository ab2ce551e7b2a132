import unittest

from hookonce.testing import make_event, play
from invoices import Invoices

PAID = {"data": {"object": {"id": "in_1", "customer": "cus_1", "amount_paid": 4900}}}


class TheHandler(unittest.TestCase):
    def test_a_paid_invoice_is_stored_and_counted(self) -> None:
        played = play(make_event("invoice.paid", PAID, provider="stripe"), Invoices())
        self.assertIsNone(played.error)
        assert played.plan is not None
        self.assertEqual(played.fact, "invoice.paid#in_1")
        self.assertEqual([write["key"] for write in played.plan["writes"]], ["stripe#invoice#in_1", "stripe#customer#cus_1"])

    def test_other_events_are_ignored(self) -> None:
        self.assertTrue(play(make_event("customer.created", {}), Invoices()).ignored)

    def test_an_invoice_that_cannot_be_read_is_an_error_for_good(self) -> None:
        played = play(make_event("invoice.paid", {}), Invoices())
        self.assertEqual(played.error, {"code": "INVOICE_UNREADABLE", "retryable": False, "at": "data"})


if __name__ == "__main__":
    unittest.main()
