"""Latent Dirichlet allocation: the bound, its maximum, the M-step, and what cannot be read."""

import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln

import mixle.stats as st
from bits import bits
from mixle.inference import optimize
from mixle.inference.stopping import ascends
from mixle.stats.latent import lda_inference
from mixle.stats.special import digammas
from models import MODELS

C = st.CategoricalDistribution
TOPICS = [C({"a": 0.7, "b": 0.2, "c": 0.1}), C({"a": 0.1, "b": 0.3, "c": 0.6})]
DOCUMENTS = [[("a", 2.0), ("c", 1.0)], [("b", 3.0)], [("a", 1.0), ("b", 1.0), ("c", 2.0)]]


def encoded(model, rows):
    return model.dist_to_encoder().seq_encode(rows)


def corpus(count=300, words=40, seed=3):
    table = ([0.4, 0.4, 0.2, 0, 0, 0], [0, 0, 0.1, 0.3, 0.3, 0.3], [0.2, 0, 0, 0, 0.4, 0.4])
    topics = [C(dict(zip("abcdef", row, strict=True))) for row in table]
    model = st.LDADistribution(topics, [0.3, 0.3, 0.3], st.PoissonDistribution(float(words)))
    return model, model.sampler(seed).sample(count)


def test_figures_of_the_published_package():
    model = st.LDADistribution(TOPICS, [0.5, 0.8])
    assert model.seq_log_density(encoded(model, DOCUMENTS)) == pytest.approx(
        [-3.6178335316486034, -4.395114216678305, -4.9593263887622285]
    )
    with_length = st.LDADistribution(TOPICS, [0.5, 0.8], st.PoissonDistribution(5.0))
    assert with_length.log_density(DOCUMENTS[0]) == pytest.approx(-5.581279263574357)
    estimator = st.LDAEstimator([st.CategoricalEstimator()] * 2)
    accumulator = estimator.accumulator_factory().make()
    accumulator.seq_update(encoded(model, DOCUMENTS), np.ones(3), model)
    stat = accumulator.value()
    assert stat.log_shares == pytest.approx([-4.93071056, -1.62219614], abs=1e-6)
    assert (stat.documents, stat.topic_counts) == (3.0, pytest.approx([3.10858127, 6.89141873], abs=1e-6))
    assert stat.children[0] == pytest.approx({"a": 2.49729049, "c": 0.3003715937, "b": 0.3109191798}, abs=1e-6)
    fitted = estimator.estimate(3.0, stat)
    assert fitted.alpha == pytest.approx([0.756933503894611, 1.497846575511348], rel=1e-6)


@pytest.mark.parametrize("alpha", [[0.5, 0.8], [3.0, 1.0], [0.2, 0.2]])
def test_the_score_is_a_bound_close_to_the_density(alpha):
    model = st.LDADistribution(TOPICS, alpha)
    for document in [*DOCUMENTS, [("a", 20), ("b", 3), ("c", 9)], [("c", 0.5)]]:

        def density(share, document=document):
            laws = [share * TOPICS[0].pmap[w] + (1.0 - share) * TOPICS[1].pmap[w] for w, _ in document]
            return math.prod(p**n for p, (_, n) in zip(laws, document, strict=True))

        powers = (alpha[0] - 1.0, alpha[1] - 1.0)
        exact = math.log(quad(density, 0.0, 1.0, weight="alg", wvar=powers)[0]) - betaln(*alpha)
        bound = model.log_density(document)
        assert exact - 1.5 < bound < exact + 1e-4


def test_no_neighbour_of_the_variational_law_has_a_higher_bound():
    model, rows = corpus(40)
    model = st.LDADistribution(model.topics, model.alpha, gamma_threshold=1e-13, max_gamma_iter=20_000)
    x = encoded(model, rows)
    walk = model.walk(x)
    found = walk.infer()
    rng = np.random.RandomState(0)
    logs = np.array([[math.log(max(t.pmap[w], 1e-300)) for row in rows for w, _ in row] for t in model.topics])

    def bound(gamma):
        mean_logs = digammas(gamma) - digammas(gamma.sum(axis=0))
        mixed = np.log(np.exp(logs + mean_logs[:, x.owners()]).sum(axis=0))
        words = np.bincount(x.owners(), x.counts * mixed, x.rows)
        return words + lda_inference._prior_term(model.alpha, gamma, mean_logs)

    best = bound(found.gamma)
    assert best == pytest.approx(found.bound, rel=1e-12)
    for _ in range(20):
        moved = found.gamma * np.exp(0.01 * rng.normal(size=found.gamma.shape))
        assert (bound(moved) <= best + 1e-7).all()


@pytest.mark.parametrize("topics", [1, 2, 3, 9, 17])
def test_a_document_has_the_same_bits_alone_and_among_others(topics):
    rng = np.random.RandomState(topics)
    laws = [st.IntegerCategoricalDistribution(0, rng.dirichlet(np.full(50, 0.3))) for _ in range(topics)]
    model = st.LDADistribution(laws, rng.uniform(0.05, 1.0, topics))
    sizes = [1, 2, 0, 7, 8, 9, 63, 200, lda_inference.TOGETHER + 5, 3, 0, 40] * 2
    rows = [list(zip(rng.randint(50, size=k).tolist(), rng.randint(1, 9, k).tolist(), strict=True)) for k in sizes]
    whole = model.seq_log_density(encoded(model, rows))
    assert whole.tolist() == [model.log_density(row) for row in rows]
    order = rng.permutation(len(rows))
    assert model.seq_log_density(encoded(model, [rows[i] for i in order])).tolist() == whole[order].tolist()
    shares = model.seq_posterior(encoded(model, rows))
    assert shares[7].tolist() == model.posterior(rows[7]).tolist()


def test_expected_counts_add_up_to_the_words_and_weights_are_repeats():
    model, rows = corpus(60)
    estimator = model.estimator()
    x = encoded(model, rows)
    weights = np.random.RandomState(2).randint(0, 4, len(rows)).astype(float)
    accumulator = estimator.accumulator_factory().make()
    density, left_out = accumulator.seq_update_scored(x, weights, model)
    stat = accumulator.value()
    words = np.array([sum(n for _, n in row) for row in rows], float)
    assert stat.topic_counts.sum() == pytest.approx(weights @ words, rel=1e-13)
    for word in "abcdef":
        count = sum(w * n for w, row in zip(weights, rows, strict=True) for v, n in row if v == word)
        assert sum(child.get(word, 0.0) for child in stat.children) == pytest.approx(count, rel=1e-12)
    repeated = [row for row, w in zip(rows, weights, strict=True) for _ in range(int(w))]
    again = estimator.accumulator_factory().make()
    same, _ = again.seq_update_scored(encoded(model, repeated), None, model)
    assert (density, left_out) == (pytest.approx(same, rel=1e-12), 0)
    assert again.value().log_shares == pytest.approx(stat.log_shares, rel=1e-12)


def test_empty_and_impossible_documents():
    model = st.LDADistribution(TOPICS, [0.5, 0.8])
    rows = [[], [("z", 1)], [("a", 1), ("z", 2)], [("a", 1)]]
    scores = model.seq_log_density(encoded(model, rows))
    assert scores[:3].tolist() == [0.0, -math.inf, -math.inf]
    assert math.isfinite(scores[3])
    assert model.posterior([]) == pytest.approx([0.5 / 1.3, 0.8 / 1.3])
    accumulator = model.estimator().accumulator_factory().make()
    density, left_out = accumulator.seq_update_scored(encoded(model, rows), np.ones(4), model)
    assert (density, left_out) == (scores[3], 2)
    assert accumulator.value().topic_counts.sum() == pytest.approx(1.0)
    nothing = model.estimator().accumulator_factory().make()
    assert nothing.seq_update_scored(encoded(model, []), np.ones(0), model) == (0.0, 0)
    assert model.estimator().estimate(0.0, nothing.value()).alpha.tolist() == [0.5, 0.5]


def test_one_topic_is_exact_and_any_split_of_a_word_scores_the_same():
    model = st.LDADistribution(TOPICS[:1], [0.7])
    assert model.log_density([("a", 3), ("c", 2)]) == pytest.approx(3 * math.log(0.7) + 2 * math.log(0.1))
    two = st.LDADistribution(TOPICS, [0.5, 0.8])
    assert two.log_density([("a", 3), ("b", 1)]) == pytest.approx(two.log_density([("a", 1), ("b", 1), ("a", 2)]))


def test_the_concentrations_are_the_likeliest_under_the_statistic():
    model, rows = corpus()
    value = statistic_of(model, rows)
    estimator = model.estimator()
    found = estimator.estimate(None, value).alpha

    def objective(alpha):
        return (
            math.lgamma(alpha.sum()) - sum(map(math.lgamma, alpha)) + (alpha - 1.0) @ value.log_shares / value.documents
        )

    for k in range(3):
        for step in (-1e-4, 1e-4):
            moved = np.array(found)
            moved[k] *= 1.0 + step
            assert objective(moved) < objective(found)
    kept = st.LDAEstimator([st.CategoricalEstimator()] * 3, st.PoissonEstimator(), fixed_alpha=[1.0, 2.0, 3.0])
    assert kept.estimate(None, value).alpha.tolist() == [1.0, 2.0, 3.0]
    heavy = model.estimator(1e12)
    assert heavy.estimate(None, value).alpha == pytest.approx(model.alpha, rel=1e-6)


def statistic_of(model, rows):
    accumulator = model.estimator().accumulator_factory().make()
    accumulator.seq_update(encoded(model, rows), np.ones(len(rows)), model)
    return accumulator.value()


def test_a_fit_recovers_topics_and_concentrations():
    model, rows = corpus(500, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cap ends it
        fitted = optimize(rows, model.estimator(), max_its=40, seed=1)
    truth = np.array([[t.pmap[w] for w in "abcdef"] for t in model.topics])
    found = np.array([[t.pmap[w] for w in "abcdef"] for t in fitted.topics])
    away = np.abs(truth[:, None] - found).max(axis=2)
    match = away.argmin(axis=1)
    assert sorted(match.tolist()) == [0, 1, 2]
    assert away.min(axis=1).max() < 0.05
    assert fitted.alpha == pytest.approx([0.3] * 3, abs=0.2)


def test_a_fit_goes_on_after_a_step_that_lowers_the_bound_and_returns_the_best():
    model, rows = corpus(400)
    gains, scores = [], []
    fitted = optimize(
        rows, model.estimator(), max_its=60, seed=3, delta=None,
        on_step=lambda s: (gains.append(s.delta), scores.append(s.log_density)),
    )  # fmt: skip
    assert min(gains) < -1e-3
    assert len(gains) == 60
    assert fitted.fit_provenance().final_objective == max(scores)


def test_estimators_say_whether_their_steps_ascend():
    lda = st.LDAEstimator([st.CategoricalEstimator()])
    assert [name for name in MODELS if "bound" in MODELS[name]().options] == [
        name for name in MODELS if not ascends(MODELS[name]().estimator)
    ]
    assert not ascends(st.CompositeEstimator((st.GaussianEstimator(), lda)))
    assert ascends(object())


def test_words_of_unlike_laws_and_vectors():
    topics = [st.DiagonalGaussianDistribution([m, 0.0], [1.0, 1.0]) for m in (-5.0, 5.0)]
    model = st.LDADistribution(topics, [0.5, 0.5], st.PoissonDistribution(20.0))
    rows = model.sampler(1).sample(60)
    value = statistic_of(model, rows)
    assert value.topic_counts.sum() == pytest.approx(sum(len(row) for row in rows))
    fitted = optimize(rows, model.estimator(), max_its=30, seed=1, delta=None)
    assert sorted(float(t.mu[0]) for t in fitted.topics) == pytest.approx([-5.0, 5.0], abs=0.3)
    mixed = st.LDADistribution([st.GaussianDistribution(0.0, 1.0), st.UniformDistribution(9.0, 10.0)], [1.0, 1.0])
    assert statistic_of(mixed, [[(0.5, 1), (9.5, 2)]]).topic_counts == pytest.approx([1.0, 2.0])


def test_a_statistic_of_other_topics_and_bad_arguments_are_refused():
    model, rows = corpus(5)
    value = statistic_of(model, rows)
    two = st.LDAEstimator([st.CategoricalEstimator()] * 2)
    with pytest.raises(ValueError, match="3 topics, 2 are expected"):
        two.accumulator_factory().make().from_value(value)
    with pytest.raises(ValueError, match="the model has 3 topics, the estimator 2"):
        two.accumulator_factory().make().seq_update(encoded(model, rows), np.ones(5), model)
    with pytest.raises(ValueError, match="assigned mass cannot exceed"):
        model.estimator().estimate(1.0, value)
    for arguments in ({"alpha": [1.0]}, {"alpha": [1.0, -1.0]}, {"alpha": [1.0, 1.0], "fit_diagnostics": 3}):
        with pytest.raises(ValueError, match=r"alpha of an LDA|not built in"):
            st.LDADistribution(TOPICS, **arguments)
    with pytest.raises(ValueError, match="fixed_alpha has 1 entries for 2 topics"):
        st.LDAEstimator([st.CategoricalEstimator()] * 2, fixed_alpha=[1.0])


def test_pooled_shares_and_topics():
    estimator = st.LDAEstimator([st.CategoricalEstimator()] * 2, keys=("shares", "topics"))
    model = st.LDADistribution(TOPICS, [0.5, 0.8], keys=("shares", "topics"))
    pair = [estimator.accumulator_factory().make() for _ in range(2)]
    for accumulator, row in zip(pair, DOCUMENTS[:2], strict=True):
        accumulator.seq_update(encoded(model, [row]), np.ones(1), model)
    pooled = {}
    for accumulator in pair:
        accumulator.key_merge(pooled)
    for accumulator in pair:
        accumulator.key_replace(pooled)
    whole = statistic_of(model, DOCUMENTS[:2])
    assert pair[0].value().log_shares == pytest.approx(whole.log_shares)
    assert bits(pair[0].value().log_shares) == bits(pair[1].value().log_shares)
    assert sum(pair[0].value().children[0].values()) == pytest.approx(sum(whole.children[0].values()))


def test_perplexity_is_that_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    model, rows = corpus(120, 50)
    table = np.zeros((len(rows), 6))
    for i, row in enumerate(rows):
        for word, count in row:
            table[i, "abcdef".index(word)] = count
    peer = decomposition.LatentDirichletAllocation(3, random_state=0, max_iter=30, doc_topic_prior=0.3).fit(table)
    laws = peer.components_ / peer.components_.sum(axis=1, keepdims=True)
    fits = [optimize(rows, model.estimator(), max_its=20, seed=seed, delta=None) for seed in range(1, 4)]
    fitted = max(fits, key=lambda fit: fit.fit_provenance().final_objective)

    def perplexity(shares, topics):
        return math.exp(-float((table * np.log(shares @ topics)).sum()) / table.sum())

    ours = np.array([[t.pmap[w] for w in "abcdef"] for t in fitted.topics])
    mine = perplexity(fitted.seq_posterior(encoded(fitted, rows)), ours)
    assert mine == pytest.approx(perplexity(peer.transform(table), laws), rel=0.03)
    truth = np.array([[t.pmap[w] for w in "abcdef"] for t in model.topics])
    assert mine <= perplexity(model.seq_posterior(encoded(model, rows)), truth) * 1.01
