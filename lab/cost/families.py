"""The families of models that can be read: what each one's modelling code fixes and what its config decides.

Read from the config and modelling classes of transformers 5.24 named in `source`; tests build each of those
classes on the meta device and compare parameter counts. `defaults` mirrors only defaults of the config class
that published configs do leave out; a size that makes the model what it is has no default and is refused
when missing (Gemma 3, whose published configs omit some, is the exception).
"""

from lab.cost.dense_families import DENSE
from lab.cost.family import Family
from lab.cost.mixed_families import HYBRID, MIXED

FAMILIES: dict[str, Family] = DENSE | MIXED | HYBRID
"""Each family by the model_type of its configs."""
