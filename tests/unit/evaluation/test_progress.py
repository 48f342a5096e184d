from nextquery.evaluation.steps import show_steps


def test_tracking_passes_every_step_on() -> None:
    with show_steps() as steps:
        steps.begin("a step")
        assert list(steps.track("detail")(range(0, 10, 4))) == [0, 4, 8]
        assert list(steps.track("nothing")(range(0))) == []
