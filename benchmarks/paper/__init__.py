"""The tables and figures of the paper, made again: `python -m benchmarks.paper`.

Donghao Li, Chengshuai Shi, Weijuan Ou, Cong Shen and Jing Yang: Efficient
Multi-objective Prompt Optimization via Pure-exploration Bandits. The paper has XSum and
CNN/DailyMail with Llama-3-8B and Gemma-7B; what is here without a network are
recordings of a smaller model on scientific papers. The numbers of the paper are in
`published.json`.
"""
