"""The losses from their equations, a pair and a bit at a time, in Python's floats.

The weights in an equation are the objective's own options.
"""

from __future__ import annotations

import itertools
import math

import torch

CLASSES = 4
ROWS = 11  # of the training set


def label_sets(labels):
    if labels.ndim == 1:
        return [{int(label)} for label in labels]
    return [{c for c in range(CLASSES) if row[c]} for row in labels]


def inner(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def nll(theta, s):
    return (theta if theta > 30 else math.log1p(math.exp(theta))) - s * theta


def pair_weights(sets):
    pairs = list(itertools.permutations(range(len(sets)), 2))
    alike = [pair for pair in pairs if sets[pair[0]] & sets[pair[1]]]
    weights = {}
    for i, j in pairs:
        if (i, j) in alike:
            jaccard = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
            weights[i, j] = jaccard * len(pairs) / len(alike)
        else:
            weights[i, j] = len(pairs) / (len(pairs) - len(alike))
    return weights


def slow_hashnet(objective, task, rows, sets, index):
    u = [[math.tanh(objective.beta * x) for x in row] for row in rows]
    weights = pair_weights(sets)
    return mean(w * nll(objective.alpha * inner(u[i], u[j]), bool(sets[i] & sets[j])) for (i, j), w in weights.items())


def slow_memory(u, sets, index, task):
    outputs = [[0.0] * task.bits for _ in range(ROWS)]
    for row, i in zip(u, index, strict=True):
        outputs[i] = row
    everywhere = label_sets(task.labels)
    return mean(
        nll(inner(u[i], outputs[j]) / 2, bool(sets[i] & everywhere[j])) for i in range(len(u)) for j in range(ROWS)
    )


def slow_dbdh(objective, task, rows, sets, index):
    u = [[min(max(x, -1.0), 1.0) for x in row] for row in rows]
    balance = mean(abs(mean(row[k] for row in u)) for k in range(task.bits))
    return slow_memory(u, sets, index, task) + objective.alpha * balance


def slow_dsdh(objective, task, rows, sets, index):
    w = objective.weights.tolist()
    b = [objective.codes[i].tolist() for i in index]
    loss = slow_memory(rows, sets, index, task)
    classification = mean(
        ((c in sets[i]) - sum(b[i][k] * w[k][c] for k in range(task.bits))) ** 2
        for i in range(len(rows))
        for c in range(CLASSES)
    )
    pull = mean((x - y) ** 2 for row, code in zip(rows, b, strict=True) for x, y in zip(row, code, strict=True))
    ridge = mean(x * x for row in w for x in row)
    return loss + objective.mu * classification + objective.nu * ridge + objective.eta * pull


def slow_dch(objective, task, rows, sets, index):
    h, gamma = task.bits, objective.gamma

    def distance(a, b):
        return max(h / 2 * (1 - inner(a, b) / math.sqrt(inner(a, a) * inner(b, b))), 0)

    total = []
    for (i, j), w in pair_weights(sets).items():
        d = distance(rows[i], rows[j])
        s = bool(sets[i] & sets[j])
        total.append(w * (s * math.log(d / gamma) + math.log(1 + gamma / d)))
    quantization = mean(math.log(1 + distance([abs(x) for x in row], [1.0] * h) / gamma) for row in rows)
    return mean(total) + objective.lam * quantization


def slow_greedyhash(objective, task, rows, sets, index):
    w = objective.classifier.weight.tolist()
    losses = []
    for row, labels in zip(rows, sets, strict=True):
        b = [1.0 if x >= 0 else -1.0 for x in row]
        scores = [inner(w[c], b) for c in range(CLASSES)]
        if task.multi_label:
            losses.append(sum(nll(scores[c], c in labels) for c in range(CLASSES)))
        else:
            losses.append(math.log(sum(math.exp(x) for x in scores)) - scores[min(labels)])
    return mean(losses) + objective.alpha * mean(abs(abs(x) - 1) ** 3 for row in rows for x in row)


def slow_csq(objective, task, rows, sets, index):
    ties = objective.tie_break.tolist()
    total, quantization = [], []
    for row, labels in zip(rows, sets, strict=True):
        for k, x in enumerate(row):
            votes = sum(task.centers[c, k].item() for c in labels)
            one = (votes if votes else ties[k]) > 0
            p = (math.tanh(x) + 1) / 2
            if labels:
                total.append(-math.log(p if one else 1 - p))
            quantization.append((abs(math.tanh(x)) - 1) ** 2)
    return mean(total) + objective.lam * mean(quantization)


def cosine(a, b):
    return inner(a, b) / math.sqrt(inner(a, a) * inner(b, b))


def tanh(rows, slope=1.0):
    return [[math.tanh(slope * x) for x in row] for row in rows]


def pairs_of(sets):
    return [(i, j, bool(sets[i] & sets[j])) for i, j in itertools.permutations(range(len(sets)), 2)]


def to_signs(rows):
    return mean((x - (1 if x >= 0 else -1)) ** 2 for row in rows for x in row)


def class_loss(scores, sets):
    """The cross-entropy of a softmax with the row's labels as target, in equal parts; of rows with a label."""
    rows = [(row, labels) for row, labels in zip(scores, sets, strict=True) if labels]
    return mean(mean(math.log(sum(math.exp(x) for x in row)) - row[c] for c in labels) for row, labels in rows)


def slow_dpsh(objective, task, rows, sets, index):
    total = mean(nll(inner(rows[i], rows[j]) / 2, s) for i, j, s in pairs_of(sets))
    return total + objective.eta * to_signs(rows)


def slow_dsh(objective, task, rows, sets, index):
    total = []
    for i, j, s in pairs_of(sets):
        d = sum((x - y) ** 2 for x, y in zip(rows[i], rows[j], strict=True))
        total.append(d / 2 if s else max(objective.margin - d, 0) / 2)
    return mean(total) + 2 * objective.alpha * mean(sum(abs(abs(x) - 1) for x in row) for row in rows)


def slow_dhn(objective, task, rows, sets, index):
    u = tanh(rows)
    total = mean(nll(inner(u[i], u[j]), s) for i, j, s in pairs_of(sets))
    return total + objective.lam * mean(math.log(math.cosh(abs(x) - 1)) for row in u for x in row)


def slow_dtsh(objective, task, rows, sets, index):
    total = []
    for i, p, n in itertools.permutations(range(len(rows)), 3):
        if sets[i] & sets[p] and not sets[i] & sets[n]:
            gap = inner(rows[i], rows[p]) / 2 - inner(rows[i], rows[n]) / 2 - objective.alpha
            total.append(nll(-gap, 0))
    return mean(total) + objective.eta * to_signs(rows)


def slow_dpn(objective, task, rows, sets, index):
    ties, total = objective.tie_break.tolist(), []
    for row, labels in zip(rows, sets, strict=True):
        if labels:
            votes = [sum(task.centers[c, k].item() for c in labels) or ties[k] for k in range(task.bits)]
            total.append(
                sum(max(objective.margin - x * math.copysign(1, vote), 0) for x, vote in zip(row, votes, strict=True))
            )
    return mean(total)


def slow_orthohash(objective, task, rows, sets, index):
    s, m, scores = objective.scale, objective.margin, []
    for row, labels in zip(rows, sets, strict=True):
        z = [cosine(row, task.centers[c].tolist()) for c in range(CLASSES)]
        if objective.kind == "angular":
            scores.append([s * (math.cos(math.acos(z[c]) + m) if c in labels else z[c]) for c in range(CLASSES)])
        else:
            scores.append([s * (z[c] - m * (c in labels)) for c in range(CLASSES)])
    return class_loss(scores, sets)


def slow_normsoftmax(objective, task, rows, sets, index):
    scores = [[cosine(row, task.centers[c].tolist()) / objective.tau for c in range(CLASSES)] for row in rows]
    return class_loss(scores, sets)


def slow_idhn(objective, task, rows, sets, index):
    h, u, total = task.bits, [[x / (1 + abs(x)) for x in row] for row in rows], []
    for i, j, _ in pairs_of(sets):
        both = len(sets[i]) * len(sets[j])
        s = len(sets[i] & sets[j]) / math.sqrt(both) if both else 0
        product = inner(u[i], u[j])
        if sets[i] == sets[j] != set() or not sets[i] & sets[j]:
            total.append(nll(objective.beta * product / h, round(s)))
        else:
            total.append(objective.gamma * h * ((product + h) / (2 * h) - s) ** 2)
    return mean(total) + objective.alpha * mean(abs(abs(x) - 1) for row in u for x in row)


def slow_hyp2(objective, task, rows, sets, index):
    u, proxies, zeta = tanh(rows), objective.proxies.tolist(), objective.zeta
    cos = [[cosine(row, proxy) for proxy in proxies] for row in u]
    own = mean(1 - cos[i][c] for i in range(len(u)) for c in sets[i])
    foreign = mean(max(cos[i][c] - zeta, 0) for i in range(len(u)) for c in set(range(CLASSES)) - sets[i])
    several = [(i, j) for i, j, s in pairs_of(sets) if not s and min(len(sets[i]), len(sets[j])) > 1]
    return own + foreign + objective.beta * mean(max(cosine(u[i], u[j]) - zeta, 0) for i, j in several)


def slow_dfh(objective, task, rows, sets, index):
    h, v = task.bits, objective.vectors.tolist()
    total = [nll(objective.margin + (-1) ** s * inner(rows[i], rows[j]) / 2, 0) for i, j, s in pairs_of(sets)]
    pull, fit = [], []
    for row, labels in zip(rows, sets, strict=True):
        for k, x in enumerate(row):
            vector = sum(v[c][k] for c in labels)
            b = 1 if objective.mu * vector + x >= 0 else -1
            pull.append((b - x) ** 2)
            fit.append((vector - b) ** 2)
    apart = mean((inner(v[a], v[c]) - (h if a == c else -h)) ** 2 for a in range(CLASSES) for c in range(CLASSES))
    return mean(total) + objective.eta * mean(pull) + mean(fit) + apart + to_signs(v)


def slow_histograms(u, sets, bins, i):
    """Row i's soft counts of similar and of dissimilar rows, at bins + 1 distances."""
    h, counts = len(u[0]), {True: [0.0] * (bins + 1), False: [0.0] * (bins + 1)}
    for j in range(len(u)):
        if j != i:
            d = (h - inner(u[i], u[j])) / 2
            for k in range(bins + 1):
                counts[bool(sets[i] & sets[j])][k] += max(1 - abs(d - k * h / bins) / (h / bins), 0)
    return counts[True], counts[False]


def slow_entropy(counts):
    total = sum(counts)
    return -sum(c / total * math.log(c / total) for c in counts if c > 0)


def slow_mihash(objective, task, rows, sets, index):
    u, information = tanh(rows, 0.5), []
    for i in range(len(u)):
        near, far = slow_histograms(u, sets, objective.bins, i)
        share = sum(near) / max(len(u) - 1, 1)
        both = slow_entropy([a + b for a, b in zip(near, far, strict=True)])
        information.append(both - share * slow_entropy(near) - (1 - share) * slow_entropy(far))
    return -mean(information)


def slow_talr(objective, task, rows, sets, index):
    if objective.measure == "ndcg":
        return slow_ndcg(objective, task, rows, sets)
    u, precisions = tanh(rows, objective.gamma), []
    for i in range(len(u)):
        near, far = slow_histograms(u, sets, objective.bins, i)
        relevant = sum(bool(sets[i] & sets[j]) for j in range(len(u)) if j != i)
        if relevant:
            total = passed_near = passed = 0.0
            for a, b in zip(near, far, strict=True):
                total += a * (passed_near + passed_near + a + 1) / (passed + passed + a + b + 1)
                passed_near, passed = passed_near + a, passed + a + b
            precisions.append(total / relevant)
    return 1 - mean(precisions)


def slow_ndcg(objective, task, rows, sets):
    u, bins, found = tanh(rows, objective.gamma), objective.bins, []
    for i in range(len(u)):
        others = [j for j in range(len(u)) if j != i]
        gains = {j: 2 ** len(sets[i] & sets[j]) - 1 for j in others}
        best = sum(g / math.log2(rank + 1) for rank, g in enumerate(sorted(gains.values(), reverse=True), start=1))
        if not best:
            continue
        total = passed = 0.0
        for t in range(bins + 1):
            shares = {}
            for j in others:
                d = (task.bits - inner(u[i], u[j])) / 2
                shares[j] = max(0.0, 1 - abs(d - t * task.bits / bins) * bins / task.bits)
            here = sum(shares.values())
            total += sum(shares[j] * gains[j] for j in others) / math.log2(passed + (here + 1) / 2 + 1)
            passed += here
        found.append(total / best)
    return 1 - mean(found)


def slow_jmlh(objective, task, rows, sets, index):
    w, losses = objective.classifier.weight.tolist(), []
    torch.manual_seed(0)
    draws = torch.rand(len(rows), task.bits).tolist()
    for row, draw, labels in zip(rows, draws, sets, strict=True):
        p = [1 / (1 + math.exp(-x)) for x in row]
        b = [1 if coin < q else -1 for q, coin in zip(p, draw, strict=True)]
        scores = [inner(w[c], b) for c in range(CLASSES)]
        if task.multi_label:
            loss = sum(nll(scores[c], c in labels) for c in range(CLASSES))
        else:
            loss = class_loss([scores], [labels])
        divergence = sum(q * math.log(2 * q) + (1 - q) * math.log(2 * (1 - q)) for q in p)
        losses.append(loss + objective.lam * divergence)
    return mean(losses)


def slow_qsmi(objective, task, rows, sets, index):
    n = len(rows)
    z = [[(1 + cosine(a, b)) / 2 for b in rows] for a in rows]
    s = [[i == j or bool(sets[i] & sets[j]) for j in range(n)] for i in range(n)]
    m = n * n / sum(map(sum, s))
    similar = sum((z[i][j] - 1) ** 2 for i in range(n) for j in range(n) if s[i][j])
    total = similar + sum(x * x for row in z for x in row) / m
    return (total + objective.alpha * sum(abs(abs(x) - 1) for row in rows for x in row)) / n**2


def slow_mds(objective, task, rows, sets, index):
    u, total = tanh(rows), []
    for row, labels in zip(u, sets, strict=True):
        scores = [math.sqrt(task.bits) * cosine(row, task.centers[c].tolist()) for c in range(CLASSES)]
        p = [math.exp(x) / sum(map(math.exp, scores)) for x in scores]
        total += [-math.log(p[c] if c in labels else 1 - p[c]) for c in range(CLASSES)]
    loss = mean(total) + objective.lam * to_signs(u)
    if objective.epoch < objective.start:
        return loss
    seen = dict(zip(index, u, strict=True))  # for the first time: a tenth of u, which has the same direction
    labels = label_sets(task.labels)
    return loss + objective.beta * mean(
        math.log1p(math.exp((1 - cosine(row, v)) / 2))
        for row, own in zip(u, sets, strict=True)
        for j, v in seen.items()
        if own & labels[j]
    )


SLOW = {
    "hashnet": slow_hashnet,
    "dbdh": slow_dbdh,
    "dsdh": slow_dsdh,
    "dch": slow_dch,
    "greedyhash": slow_greedyhash,
    "csq": slow_csq,
    "dsh": slow_dsh,
    "dhn": slow_dhn,
    "dpsh": slow_dpsh,
    "dtsh": slow_dtsh,
    "mihash": slow_mihash,
    "talr": slow_talr,
    "idhn": slow_idhn,
    "qsmi": slow_qsmi,
    "dpn": slow_dpn,
    "orthohash": slow_orthohash,
    "normsoftmax": slow_normsoftmax,
    "mds": slow_mds,
    "jmlh": slow_jmlh,
    "dfh": slow_dfh,
    "hyp2": slow_hyp2,
}
