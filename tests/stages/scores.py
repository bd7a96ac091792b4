"""The scores of one worker's readers."""

from feedproxy.scoring.grade import ReaderScore, rank, score_account
from feedproxy.scoring.live_scores import LiveScores


def scores_of(live_scores: LiveScores, now: float) -> list[ReaderScore]:
    return rank(score_account(account, now) for account in live_scores.accounts())
