"""What ``docs/rows.md`` says to type, on every kind of database."""

from datetime import timedelta
from pathlib import Path

from support.cli import Reply
from support.cli_shop import OLD, YOUNG, CliShop
from support.docs import TOML, commands, configurations


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


def test_what_the_readme_says_to_type_changes_no_row_of_any_other_table(shop: CliShop) -> None:
    """S-REACH-01, S-REACH-02, S-REACH-03."""
    stay = shipments(shop, 200)
    before = {}
    for name, how in (("holds", "RESTRICT"), ("scans", "CASCADE"), ("claims", "SET NULL")):
        shop.database.run(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, shipment_update BIGINT NULL, FOREIGN KEY "
            f"(shipment_update) REFERENCES shipment_updates (id) ON DELETE {how})",
            f"CREATE INDEX {name}_by_update ON {name} (shipment_update)",
        )
        first = len(before) * 4 + 2
        shop.insert(name, (1, first), (2, first + 1), (3, 200))
        before[name] = shop.database.ask(f"SELECT * FROM {name} ORDER BY id")  # noqa: S608
        stay += [str(first), str(first + 1)]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (text,) = (one for one in TOML.findall(readme) if "[policies.stale-updates.rows]" in one)
    zoned = text.replace("where = ", 'timestamp_zone = "UTC"\nwhere = ')
    (shop.folder / "bestbefore.toml").write_text(zoned)

    for words in ("check", "plan stale-updates --dry-run", "run stale-updates"):
        shop(*words.split(), env={"SHOP_URL": shop.database.url})
    verified = shop("verify", "stale-updates", env={"SHOP_URL": shop.database.url}).out

    assert "nothing overdue" in verified
    assert shop.left("shipment_updates") == sorted(stay, key=int)
    for name, rows in before.items():
        assert shop.database.ask(f"SELECT * FROM {name} ORDER BY id") == rows  # noqa: S608
