"""Which of a model's layers a page shows."""

from lab.cost import catalog
from lab.view.layer_kinds import shown_layer


def test_a_page_says_which_layers_it_does_not_show() -> None:
    models = catalog.models()
    assert shown_layer(models["gpt2"]) is None
    gemma = next(model for name, model in models.items() if any(model.windows) and None in model.windows)
    said = str(shown_layer(gemma))
    full = sum(
        count for kind, count in gemma.layer_groups if kind.attention and kind.attention.window is None
    )
    assert f"one of the {full} layers of {gemma.layers} that see the whole context" in said
    assert "tokens alone" in said
    for model in models.values():
        assert (shown_layer(model) is None) == all(
            kind.attention is not None and kind.attention.span == "full" for kind in model.kinds
        )
