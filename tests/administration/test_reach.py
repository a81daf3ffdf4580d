"""Reach of an administrator: a token for certain spaces administers those alone."""

import pytest
import recollect
from recollect_server.access.principal import EVERY_SPACE

from tests.administration.conftest import Guarded


def test_a_token_for_a_space_lists_that_space_alone(guarded: Guarded) -> None:
    everything = list(guarded.operator.admin.list_spaces())
    assert [space.name for space in everything] == ["default", "one", "three", "two"]
    own = guarded.connect("admin", "two", "one").admin.list_spaces()
    assert [(space.name, space.conversations, space.messages) for space in own] == [
        ("one", 1, 1),
        ("two", 1, 1),
    ]


def test_pages_of_spaces_and_tokens_follow_each_other_without_gap(guarded: Guarded) -> None:
    admin = guarded.operator.admin
    pages, token = [], ""
    while True:
        page = admin.list_spaces_page(page_size=2, page_token=token)
        pages.append([space.name for space in page.spaces])
        if not (token := page.next_page_token):
            break
    assert pages == [["default", "one"], ["three", "two"]]
    assert [it.name for it in admin.list_spaces(page_size=1)] == [
        name for page in pages for name in page
    ]
    ids, token = [], ""
    while True:
        listed = admin.list_tokens_page(page_size=3, page_token=token)
        ids += [it.id for it in listed.tokens]
        if not (token := listed.next_page_token):
            break
    assert sorted(ids) == sorted(token.id for token in guarded.tokens.all())
    assert len(ids) == len(set(ids)) > 3
    assert [it.id for it in admin.list_tokens(page_size=1)] == ids


def test_a_token_for_a_space_lists_no_token_that_reaches_beyond_it(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "three", note="the owner of three")
    guarded.connect("reader", "three", note="a reader of three")
    guarded.connect("reader", "three", "one")
    guarded.connect("reader", EVERY_SPACE)
    listed = list(admin.admin.list_tokens())
    assert {token.note for token in listed} >= {"the owner of three", "a reader of three"}
    assert {token.spaces for token in listed} == {("three",)}


def test_a_token_for_a_space_has_the_statistics_of_that_space_alone(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "one").admin
    stats = admin.get_stats()
    assert (stats.space.space, stats.space.conversations, stats.server) == ("one", 1, None)
    with pytest.raises(recollect.NotFound, match="there is no space two"):
        admin.get_stats(space="two")
    for name in ("one", "three"):  # an append alone need not have opened its space yet
        guarded.operator.admin.get_stats(space=name)
    server = guarded.operator.admin.get_stats(space="two").server
    assert server is not None
    assert (server.spaces, server.open_spaces) == (4, 4)


def test_what_is_about_the_whole_server_needs_a_token_for_every_space(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "one", "two", "three", "default").admin
    for call in (
        admin.list_settings,
        lambda: admin.set_setting("", ""),  # denied before anything is said of its fields
        lambda: admin.create_space("four"),
        lambda: admin.create_space("../four"),
    ):
        with pytest.raises(recollect.PermissionDenied, match="--space '\\*'"):
            call()
    assert guarded.operator.admin.list_settings()
