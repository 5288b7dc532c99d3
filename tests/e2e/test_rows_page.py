"""What ``docs/rows.md`` says to type, on every kind of database."""

from datetime import timedelta

from support.cli import Reply
from support.cli_shop import OLD, YOUNG, CliShop
from support.docs import commands, configurations


def shipments(shop: CliShop, n: int) -> list[str]:
    """The page's table; returns what has to stay. Of four updates one is young, and one of the old
    ones is not delivered yet."""
    rows = [
        (number, "new" if number % 4 == 1 else "delivered",
         YOUNG if number % 4 == 0 else OLD + timedelta(seconds=number))
        for number in range(1, n + 1)
    ]  # fmt: skip
    shop.database.run(
        "CREATE TABLE shipment_updates (id BIGINT PRIMARY KEY, status VARCHAR(20) NOT NULL, "
        f"delivered_at {shop.instant} NULL)",
        "CREATE INDEX by_date ON shipment_updates (delivered_at, id)",
    )
    shop.insert("shipment_updates", *rows)
    return [str(number) for number, _, _ in rows if number % 4 < 2]


def test_what_the_page_says_to_type_deletes_what_is_old_and_delivered(shop: CliShop) -> None:
    stay = shipments(shop, 2_000)
    (text,) = configurations("rows.md")
    # A column without a zone, so that one table does for all kinds of databases.
    zoned = text.replace("where = ", 'timestamp_zone = "UTC"\nwhere = ')
    (shop.folder / "bestbefore.toml").write_text(zoned)

    said: dict[str, Reply] = {
        " ".join(words): shop(*words, env={"SHOP_URL": shop.database.url})
        for words in commands("rows.md")
    }

    assert said["check"].out.endswith("\nok\n")
    assert "2 batches of 1,000 rows" in said["plan stale-updates --dry-run"].out
    assert "17 stays" in said["explain stale-updates 17"].out
    assert "status = 'delivered'" in said["explain stale-updates 17"].out
    assert "1,000 rows deleted" in said["run stale-updates"].out
    assert "nothing overdue among" in said["verify stale-updates"].out
    assert shop.left("shipment_updates") == stay
