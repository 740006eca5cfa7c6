"""Strongly connected components of a graph, and a shortest cycle in one of them. Nodes are numbers from 0."""

from collections import deque
from collections.abc import Sequence

Edges = Sequence[Sequence[int]]
"""For each node those that follow it."""


def components(edges: Edges) -> list[list[int]]:
    """Those of more than one node, in time linear in nodes and edges (Tarjan 1972), without recursion.

    An edge from a node to itself makes no component here.
    """
    found: list[list[int]] = []
    index = [0] * len(edges)  # 0: not met yet
    low = [0] * len(edges)
    on_stack = bytearray(len(edges))
    stack: list[int] = []
    met = 0
    for root in range(len(edges)):
        if index[root]:
            continue
        met += 1
        index[root] = low[root] = met
        stack.append(root)
        on_stack[root] = 1
        path = [(root, iter(edges[root]))]
        while path:
            node, rest = path[-1]
            for follower in rest:
                if not index[follower]:
                    met += 1
                    index[follower] = low[follower] = met
                    stack.append(follower)
                    on_stack[follower] = 1
                    path.append((follower, iter(edges[follower])))
                    break
                if on_stack[follower] and index[follower] < low[node]:
                    low[node] = index[follower]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == index[node]:
                    found += _popped(stack, on_stack, node)
    return found


def _popped(stack: list[int], on_stack: bytearray, node: int) -> list[list[int]]:
    """The component of its root, taken off the stack; nothing for a node alone."""
    members = []
    while True:
        member = stack.pop()
        on_stack[member] = 0
        members.append(member)
        if member == node:
            return [members] if len(members) > 1 else []


def cycle_through(edges: Edges, component: Sequence[int]) -> list[int]:
    """A shortest cycle through the smallest node of a component; the first node is not repeated at the end."""
    inside = set(component)
    start = min(component)
    before: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for follower in edges[node]:
            if follower == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(before[cycle[-1]])
                return cycle[::-1]
            if follower in inside and follower not in before:
                before[follower] = node
                waiting.append(follower)
    raise AssertionError("a component is full of cycles")
