from mixle import errors as errors
from mixle import inference as inference
from mixle import stats as stats
from mixle import tables as tables
from mixle import telemetry as telemetry
from mixle import utils as utils
from mixle.tables import fit as fit
from mixle.tables import load as load
from mixle.tables import schema as schema

__version__: str
