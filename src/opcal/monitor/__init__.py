"""Has the field changed, what does it cost, and what to label next?"""

from opcal.monitor.carry import NextRound, next_round
from opcal.monitor.rounds import history, look, start_next
from opcal.monitor.watch import Watch, watch

__all__ = ["NextRound", "Watch", "history", "look", "next_round", "start_next", "watch"]
